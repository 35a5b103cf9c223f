/**
 * Code as it runs in the node daemon for a call that may change nothing any more.
 *
 * @module
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { enableChangeChecks, withChangeCheck } from "../../ffi/change_check.ts";

/** Runs work whose first change throws an error with the message "superseded". */
export function whenSuperseded<T>(work: () => T): T {
  enableChangeChecks(new AsyncLocalStorage());
  return withChangeCheck(() => {
    throw new Error("superseded");
  }, work);
}
