/**
 * The features of the kernel that dummy needs.
 *
 * @module
 */

import type { KernelNeeds } from "../../cni/tools/about.ts";
import { linkNeed } from "../parts/kernel_needs.ts";

/** See {@linkcode KernelNeeds}. */
export const needs: KernelNeeds = {
  type: "dummy",
  features: [linkNeed("dummy", "dummy", { kind: "dummy" })],
};
