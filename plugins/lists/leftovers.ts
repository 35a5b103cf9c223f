/**
 * Leftovers of plugins on a node, for tools. `deno task schemas` writes it.
 *
 * @module
 */

// deno-fmt-ignore-file

import type { Leftovers } from "../../cni/tools/leftovers.ts";
import { leftovers as bandwidthTold } from "../bandwidth/leftovers.ts";
import { leftovers as bridgeTold } from "../bridge/leftovers.ts";
import { leftovers as dhcpTold } from "../../ipam/dhcp/leftovers.ts";
import { leftovers as firewallTold } from "../firewall/leftovers.ts";
import { leftovers as flannelTold } from "../flannel/leftovers.ts";
import { leftovers as hostDeviceTold } from "../host_device/leftovers.ts";
import { leftovers as hostLocalTold } from "../../ipam/host_local/leftovers.ts";
import { leftovers as multusTold } from "../multus/leftovers.ts";
import { leftovers as portmapTold } from "../portmap/leftovers.ts";
import { leftovers as ptpTold } from "../ptp/leftovers.ts";
import { leftovers as tuningTold } from "../tuning/leftovers.ts";

/** In the order of the types. */
export const LEFTOVERS: readonly Leftovers[] = [
  bandwidthTold,
  bridgeTold,
  dhcpTold,
  firewallTold,
  flannelTold,
  hostDeviceTold,
  hostLocalTold,
  multusTold,
  portmapTold,
  ptpTold,
  tuningTold,
];
