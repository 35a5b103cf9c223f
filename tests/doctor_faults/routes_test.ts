import { ROUTES } from "./rows/routes.ts";
import { testFaults } from "./topic.ts";

testFaults("Routes", ROUTES);
