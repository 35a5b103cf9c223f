import { testOnMaster } from "../../tests/_harness/on_master_cases.ts";

testOnMaster("ipvlan", {
  changes: [[
    "another mode",
    "sandbox",
    "ip link set eth0 type ipvlan mode l3",
    'Interface "eth0" has mode l3, not l2',
  ]],
  hasOwnMac: false,
  atLeast: 12,
});
