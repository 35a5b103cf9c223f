/**
 * Port mappings in a table of nftables.
 *
 * @module
 */

import type { Backend } from "./backend.ts";

const notYet = (): Promise<never> =>
  Promise.reject(new Error("the nftables backend is not built in"));

/** Keeps mappings in maps of its own table. */
export const nftablesBackend: Backend = {
  add: notYet,
  check: notYet,
  del: () => Promise.resolve([]),
  gc: () => Promise.resolve([]),
  status: notYet,
};
