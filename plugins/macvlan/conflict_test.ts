import { testConflictsOnMaster } from "../../tests/_harness/on_master_cases.ts";

testConflictsOnMaster("macvlan", { atLeast: 12 });
