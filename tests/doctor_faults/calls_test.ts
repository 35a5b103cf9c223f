import { CALLS } from "./rows/calls.ts";
import { testFaults } from "./topic.ts";

// Nothing here waits for packets.
testFaults("Calls", CALLS);
