/**
 * The features of the kernel that vrf needs.
 *
 * @module
 */

import type { KernelNeeds } from "../../cni/tools/about.ts";
import { linkNeed } from "../parts/kernel_needs.ts";

/** See {@linkcode KernelNeeds}. */
export const needs: KernelNeeds = {
  type: "vrf",
  features: [linkNeed("vrf", "vrf", { kind: "vrf", data: { table: 10 } })],
};
