/**
 * host-local in the node daemon, which caches the listings of the networks' directories
 * between calls.
 *
 * @module
 */

import type { Log } from "../../base/log/log.ts";
import { describeError } from "../../base/error.ts";
import { DirectoryWatches } from "../../ffi/file/directory_watch.ts";
import { cacheListings } from "./listing/open.ts";

/** Keeps listings until disposal. Without a descriptor, calls read directories. */
export function keepLeases(log: Pick<Log, "info">): Disposable {
  using stack = new DisposableStack();
  try {
    const watches = stack.use(new DirectoryWatches());
    stack.use(cacheListings((path) => watches.watch(path)));
  } catch (error) {
    log.info("Cannot watch directories with leases", {
      error: describeError(error),
    });
  }
  return stack.move();
}
