/**
 * The features of the kernel that this project's plugins need, for tools.
 *
 * @module
 */

import type { KernelNeeds } from "../cni/tools/about.ts";
import { needs as bandwidth } from "./bandwidth/needs.ts";
import { needs as bridge } from "./bridge/needs.ts";
import { needs as dummy } from "./dummy/needs.ts";
import { needs as ipvlan } from "./ipvlan/needs.ts";
import { needs as macvlan } from "./macvlan/needs.ts";
import { needs as portmap } from "./portmap/needs.ts";
import { needs as ptp } from "./ptp/needs.ts";
import { needs as tap } from "./tap/needs.ts";
import { needs as vlan } from "./vlan/needs.ts";
import { needs as vrf } from "./vrf/needs.ts";

/** Those of all plugins that have any. */
export const NEEDS: readonly KernelNeeds[] = [
  bandwidth,
  bridge,
  dummy,
  ipvlan,
  macvlan,
  portmap,
  ptp,
  tap,
  vlan,
  vrf,
];
