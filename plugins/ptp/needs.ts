/**
 * The features of the kernel that ptp needs.
 *
 * @module
 */

import type { KernelNeeds } from "../../cni/tools/about.ts";
import { VETH } from "../parts/kernel_needs.ts";

/** See {@linkcode KernelNeeds}. */
export const needs: KernelNeeds = {
  type: "ptp",
  features: [VETH],
};
