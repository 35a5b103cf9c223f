/** vlan  compared with the Go plugin. */

import { testParityOnMaster } from "../../tests/_harness/on_master_parity.ts";

testParityOnMaster("vlan", {
  rows: {
    "both families": {},
    "an MTU": { mtu: 1400 },
    "no VLAN": { vlanId: undefined },
    "the last VLAN": { vlanId: 4094 },
  },
  newRows: { "no addresses": { ipam: undefined } },
  refusals: [
    [{ master: "none0" }, "Link not found"],
    [{ master: "" }, '"master" field is required. It specifies the host'],
    [{ vlanId: 4095 }, "invalid VLAN ID 4095 (must be between 0 and 409"],
    [{ vlanId: -1 }, "invalid VLAN ID -1 (must be between 0 and 409"],
    [{ mtu: 1501 }, "invalid MTU 1501, must be [0, master MTU(1500)]"],
  ],
});
