import { EARLIER } from "./rows/earlier.ts";
import { testFaults } from "./topic.ts";

testFaults("Earlier", EARLIER);
