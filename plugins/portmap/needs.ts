/**
 * The features of the kernel that portmap needs.
 *
 * @module
 */

import type { KernelNeeds } from "../../cni/tools/about.ts";
import { CONNTRACK } from "../parts/kernel_needs.ts";

/** See {@linkcode KernelNeeds}. */
export const needs: KernelNeeds = {
  type: "portmap",
  features: [CONNTRACK],
};
