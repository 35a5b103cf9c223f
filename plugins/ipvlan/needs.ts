/**
 * The features of the kernel that ipvlan needs.
 *
 * @module
 */

import type { KernelNeeds } from "../../cni/tools/about.ts";
import { linkNeed } from "../parts/kernel_needs.ts";

/** See {@linkcode KernelNeeds}. */
export const needs: KernelNeeds = {
  type: "ipvlan",
  features: [linkNeed("ipvlan", "ipvlan", { kind: "ipvlan" })],
};
