/**
 * Leftovers of ptp: masquerades.
 *
 * @module
 */

import type { Leftovers } from "../../cni/tools/leftovers.ts";
import { MASQUERADES } from "../parts/firewall/masquerade/leftovers.ts";

/** See {@linkcode Leftovers}. */
export const leftovers: Leftovers = {
  type: "ptp",
  finders: MASQUERADES,
};
