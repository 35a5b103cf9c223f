/** ipvlan  compared with the Go plugin. */

import { testParityOnMaster } from "../../tests/_harness/on_master_parity.ts";
import { MASTER } from "../../tests/_harness/on_master.ts";

const PREV_RESULT = {
  cniVersion: "1.0.0",
  interfaces: [{ name: MASTER }],
  ips: [{ address: "10.1.2.77/24", gateway: "10.1.2.1", interface: 0 }],
  routes: [{ dst: "0.0.0.0/0" }],
};

testParityOnMaster("ipvlan", {
  rows: {
    "both families": {},
    "an MTU": { mtu: 1400 },
    "l3": { mode: "l3" },
    "l3s": { mode: "l3s" },
    "chained": { ipam: undefined, master: "", prevResult: PREV_RESULT },
  },
  refusals: [
    [{ master: "none0" }, 'failed to lookup master "none0": Link not found'],
    [{ master: "" }, "no default route interface found"],
    [{ mode: "none" }, 'unknown ipvlan mode: "none"'],
    [
      { master: "", prevResult: { ...PREV_RESULT, interfaces: [], ips: [] } },
      "chained master failure. PrevResult lacks a single named interface",
    ],
  ],
});
