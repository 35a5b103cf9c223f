/**
 * Port mappings in iptables, in the Go plugin's chains.
 *
 * @module
 */

import type { Backend } from "./backend.ts";

const notYet = (): Promise<never> =>
  Promise.reject(new Error("the iptables backend is not built in"));

/** Keeps mappings in the chains of the Go plugin. */
export const iptablesBackend: Backend = {
  add: notYet,
  check: notYet,
  del: () => Promise.resolve([]),
  gc: () => Promise.resolve([]),
  status: notYet,
};
