/**
 * What an attachment was given at ADD, which nothing else may know any more.
 *
 * @module
 */

import { describeError } from "../../cni/error.ts";
import type { Network } from "../../cni/libcni/operation.ts";
import type { RuntimeConf } from "../../cni/libcni/runtime_conf.ts";
import type { Session } from "./session.ts";

/**
 * Returns the description of an attachment with the arguments of its ADD, as
 * libcni's cache has them, if it has: a scratch file knows no port mappings and
 * no bandwidth, and the annotation may have changed.
 */
export function recallArgs(
  { runtime, log }: Pick<Session, "runtime" | "log">,
  network: Network,
  conf: RuntimeConf,
): RuntimeConf {
  try {
    return runtime.findCachedConfig(network, conf)?.conf ?? conf;
  } catch (error) {
    log.warn("Doing without the arguments of ADD", {
      network: network.name,
      error: describeError(error),
    });
    return conf;
  }
}

/**
 * Says whether libcni's cache has an attachment, which is to say that its ADD
 * came to an end. A file that cannot be read is that of one all the same.
 */
export function isCached(
  { runtime }: Pick<Session, "runtime">,
  network: Pick<Network, "name">,
  conf: RuntimeConf,
): boolean {
  try {
    return runtime.findCachedConfig(network, conf) !== undefined;
  } catch {
    return true;
  }
}
