/**
 * What this project's plugins leave on a node, for tools.
 *
 * @module
 */

import type { Leftovers } from "../cni/tools/leftovers.ts";
import { leftovers as dhcp } from "../ipam/dhcp/leftovers.ts";
import { leftovers as hostLocal } from "../ipam/host_local/leftovers.ts";
import { leftovers as bandwidth } from "./bandwidth/leftovers.ts";
import { leftovers as bridge } from "./bridge/leftovers.ts";
import { leftovers as firewall } from "./firewall/leftovers.ts";
import { leftovers as flannel } from "./flannel/leftovers.ts";
import { leftovers as multus } from "./multus/leftovers.ts";
import { leftovers as portmap } from "./portmap/leftovers.ts";
import { leftovers as ptp } from "./ptp/leftovers.ts";
import { leftovers as tuning } from "./tuning/leftovers.ts";

/** Those of all plugins that have any. */
export const LEFTOVERS: readonly Leftovers[] = [
  dhcp,
  hostLocal,
  bandwidth,
  bridge,
  firewall,
  flannel,
  multus,
  portmap,
  ptp,
  tuning,
];
