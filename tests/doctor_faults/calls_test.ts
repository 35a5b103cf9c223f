import { CALLS } from "./rows/calls.ts";
import { testFaults } from "./topic.ts";

testFaults("Calls", CALLS);
