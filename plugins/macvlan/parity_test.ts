/** macvlan  compared with the Go plugin. */

import { testParityOnMaster } from "../../tests/_harness/on_master_parity.ts";
import { MASTER } from "../../tests/_harness/on_master.ts";

testParityOnMaster("macvlan", {
  rows: {
    "both families": {},
    "no ipam": { ipam: undefined },
    "an MTU": { mtu: 1400 },
    "private": { mode: "private" },
    "vepa": { mode: "vepa" },
    "passthru": { mode: "passthru" },
    "dns": { dns: { nameservers: ["192.0.2.53"] } },
  },
  refusals: [
    [{ master: "none0" }, "Link not found"],
    [{ master: "" }, "no default route interface found"],
    [{ mtu: 1501 }, "invalid MTU 1501, must be [0, master MTU(1500)]"],
    [{ mtu: -1 }, "invalid MTU -1, must be [0, master MTU(1500)]"],
    [{ mode: "none" }, 'unknown macvlan mode: "none"'],
    [
      { master: MASTER, ipam: { type: "none" } },
      'failed to find plugin "none"',
    ],
  ],
});
