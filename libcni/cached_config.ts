/**
 * The input of ADD, found again for DEL.
 *
 * @module
 */

import { describeError } from "../base/error.ts";
import type { AttachmentCache } from "./cache.ts";
import {
  type NetworkConf,
  parseNetworkConf,
  parseNetworkConfList,
} from "./conf.ts";
import type { Network } from "./operation.ts";
import { keyOf, restoreArgs, type RuntimeConf } from "./runtime_conf.ts";
import type { Tools } from "./tools.ts";

/** The input of ADD, from the cache. */
export interface CachedConfig {
  /** The network's configuration, byte for byte. */
  readonly config: Uint8Array;
  /** The attachment with the cached arguments and the caller's namespace. */
  readonly conf: RuntimeConf;
}

/**
 * Finds the input of an attachment's ADD.
 *
 * @returns Undefined if the attachment is not cached
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

/** Wraps the configuration of a bare plugin in a list. */
export function asNetwork(
  { name, cniVersion, plugin, bytes }: NetworkConf,
): Network {
  return { name, cniVersion, plugins: [plugin], bytes };
}

/**
 * Returns the input of the ADD that DEL is to undo. If the cache does not have
 * it, returns the input of DEL.
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

/** Parses a list or a bare plugin. To the list parser, a bare plugin is a list without plugins. */
function parseCachedConfig(bytes: Uint8Array): Network {
  const list = parseNetworkConfList(bytes);
  return list.plugins.length > 0 ? list : asNetwork(parseNetworkConf(bytes));
}
