import { testOnMaster } from "../../tests/_harness/on_master_cases.ts";

testOnMaster("vlan", { changes: [], hasOwnMac: true, atLeast: 12 });
