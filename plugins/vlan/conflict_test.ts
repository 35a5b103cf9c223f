import { testConflictsOnMaster } from "../../tests/_harness/on_master_cases.ts";

testConflictsOnMaster("vlan", { atLeast: 12 });
