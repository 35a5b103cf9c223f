import { RULES } from "./rows/rules.ts";
import { testFaults } from "./topic.ts";

testFaults("Rules", RULES);
