/**
 * The features of the kernel that vlan needs.
 *
 * @module
 */

import type { KernelNeeds } from "../../cni/tools/about.ts";
import { linkNeed } from "../parts/kernel_needs.ts";

/** See {@linkcode KernelNeeds}. */
export const needs: KernelNeeds = {
  type: "vlan",
  features: [linkNeed("vlan", "8021q", { kind: "vlan", data: { id: 5 } })],
};
