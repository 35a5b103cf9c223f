/**
 * The features of the kernel that plugins need, for tools. `deno task schemas` writes it.
 *
 * @module
 */

// deno-fmt-ignore-file

import type { KernelNeeds } from "../../cni/tools/about.ts";
import { needs as bandwidthTold } from "../bandwidth/needs.ts";
import { needs as bridgeTold } from "../bridge/needs.ts";
import { needs as dummyTold } from "../dummy/needs.ts";
import { needs as ipvlanTold } from "../ipvlan/needs.ts";
import { needs as macvlanTold } from "../macvlan/needs.ts";
import { needs as portmapTold } from "../portmap/needs.ts";
import { needs as ptpTold } from "../ptp/needs.ts";
import { needs as tapTold } from "../tap/needs.ts";
import { needs as vlanTold } from "../vlan/needs.ts";
import { needs as vrfTold } from "../vrf/needs.ts";

/** In the order of the types. */
export const NEEDS: readonly KernelNeeds[] = [
  bandwidthTold,
  bridgeTold,
  dummyTold,
  ipvlanTold,
  macvlanTold,
  portmapTold,
  ptpTold,
  tapTold,
  vlanTold,
  vrfTold,
];
