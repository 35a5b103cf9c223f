/**
 * What tools know about remote. Its calls never load this file.
 *
 * @module
 */

import type { Facts } from "../../cni/tools/about.ts";

/** See {@linkcode Facts}. */
export const facts: Facts = {
  type: "remote",
  kind: "meta",
  status: "experimental",
  runs: {},
  passesOn: true,
  hasDeepStatus: true,
  keys: async () => (await import("./keys.ts")).keys,
};
