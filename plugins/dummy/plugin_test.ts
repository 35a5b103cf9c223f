import { testOwnLink } from "../../tests/_harness/own_link_cases.ts";

// The link, its name, two addresses, two routes, two leases, ...
testOwnLink("dummy", { changes: [], atLeast: 9 });
