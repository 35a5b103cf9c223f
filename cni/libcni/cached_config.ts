/**
 * What ADD was given, found again for DEL.
 *
 * @module
 */

import { describeError } from "../error.ts";
import type { AttachmentCache } from "./cache.ts";
import {
  type NetworkConf,
  parseNetworkConf,
  parseNetworkConfList,
} from "./conf.ts";
import type { Network } from "./operation.ts";
import { keyOf, restoreArgs, type RuntimeConf } from "./runtime_conf.ts";
import type { Tools } from "./tools.ts";

/** What ADD was given, as the cache has it. */
export interface CachedConfig {
  /** The network's configuration, byte for byte. */
  readonly config: Uint8Array;
  /** The attachment, with its arguments; the namespace is the caller's. */
  readonly conf: RuntimeConf;
}

/**
 * Finds what ADD of an attachment was given.
 *
 * @returns Nothing if the attachment is not cached
 * @throws {CniError} If the cached document cannot be read
 */
export function findCachedConfig(
  cache: AttachmentCache,
  network: { readonly name: string },
  conf: RuntimeConf,
): CachedConfig | undefined {
  const cached = cache.readConfig(keyOf(network, conf));
  return cached && { config: cached.config, conf: restoreArgs(conf, cached) };
}

/** Makes a list of one plugin of the configuration of a bare plugin. */
export function asNetwork(
  { name, cniVersion, plugin, bytes }: NetworkConf,
): Network {
  return { name, cniVersion, plugins: [plugin], bytes };
}

/**
 * Returns what ADD of an attachment was given, to be undone by DEL. If that
 * cannot be told any more, it is what DEL is given.
 */
export function restoreAttachment(
  { cache, log }: Tools,
  network: Network,
  conf: RuntimeConf,
): { readonly network: Network; readonly conf: RuntimeConf } {
  try {
    const cached = findCachedConfig(cache, network, conf);
    if (cached === undefined) return { network, conf };
    return { network: parseCachedConfig(cached.config), conf: cached.conf };
  } catch (error) {
    log.warn("Deleting without the cached configuration", {
      network: network.name,
      containerId: conf.containerId,
      ifName: conf.ifName,
      error: describeError(error),
    });
    return { network, conf };
  }
}

/** Parses a list, or a bare plugin: to a list it looks like one of no plugins. */
function parseCachedConfig(bytes: Uint8Array): Network {
  const list = parseNetworkConfList(bytes);
  return list.plugins.length > 0 ? list : asNetwork(parseNetworkConf(bytes));
}
