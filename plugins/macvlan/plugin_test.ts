import { testOnMaster } from "../../tests/_harness/on_master_cases.ts";

testOnMaster("macvlan", {
  changes: [[
    "another mode",
    "sandbox",
    "ip link set eth0 type macvlan mode vepa",
    'Interface "eth0" has mode vepa, not bridge',
  ]],
  hasOwnMac: true,
  atLeast: 12,
});
