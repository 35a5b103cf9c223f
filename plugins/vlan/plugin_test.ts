import { MASTER } from "../../tests/_harness/on_master.ts";
import { testOnMaster } from "../../tests/_harness/on_master_cases.ts";

testOnMaster("vlan", {
  changes: [[
    "another VLAN",
    "host",
    `ip link set ${MASTER} up`,
  ]],
  hasOwnMac: true,
  atLeast: 12,
});
