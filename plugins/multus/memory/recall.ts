/**
 * The recorded configuration and arguments of an attachment's ADD.
 *
 * @module
 */

import { describeError } from "../../../cni/error.ts";
import type { Network } from "../../../cni/libcni/operation.ts";
import type { RuntimeConf } from "../../../cni/libcni/runtime_conf.ts";
import {
  asAdded,
  type KnownAttachment,
  networkOf,
} from "./cached_attachments.ts";
import { loadDelegate } from "../model/delegate.ts";
import type { Session } from "../session.ts";

/** A network and the attachment to it. */
export type Recalled = Pick<KnownAttachment, "network" | "conf">;

/**
 * Returns an attachment with the configuration and arguments of its ADD, if
 * libcni's cache has them. A scratch file has no port mappings and no bandwidth,
 * and may lack plugin keys, and the annotation may have changed.
 */
export function recall(session: Session, attachment: Recalled): Recalled {
  const { runtime, log } = session;
  const { network, conf } = attachment;
  const doWithout = (error: unknown): void =>
    log.warn("Cannot read the cached arguments of ADD", {
      network: network.name,
      error: describeError(error),
    });
  const cached = attempt(
    () => runtime.findCachedConfig(network, conf),
    doWithout,
  );
  if (cached === undefined) return attachment;
  const added = attempt(
    () => asAdded(network, networkOf(loadDelegate(cached.config))),
    doWithout,
  );
  return { network: added ?? network, conf: cached.conf };
}

function attempt<T>(
  run: () => T,
  onError: (error: unknown) => void,
): T | undefined {
  try {
    return run();
  } catch (error) {
    onError(error);
    return undefined;
  }
}

/**
 * Reports whether libcni's cache has an attachment, that is, whether its ADD
 * completed. An unreadable file counts.
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
