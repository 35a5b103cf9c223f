import { LINKS } from "./rows/links.ts";
import { testFaults } from "./topic.ts";

testFaults("Links", LINKS);
