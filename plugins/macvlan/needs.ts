/**
 * The features of the kernel that macvlan needs.
 *
 * @module
 */

import type { KernelNeeds } from "../../cni/tools/about.ts";
import { linkNeed } from "../parts/kernel_needs.ts";

/** See {@linkcode KernelNeeds}. */
export const needs: KernelNeeds = {
  type: "macvlan",
  features: [linkNeed("macvlan", "macvlan", { kind: "macvlan" })],
};
