/**
 * The network that every pod has first: its own loopback.
 *
 * @module
 */

import {
  type NetworkConfList,
  parseNetworkConfList,
} from "../cni/libcni/mod.ts";

/** Its name, the same in kubelet, CRI-O and containerd. */
export const LOOPBACK_NETWORK = "cni-loopback";

/** Its interface, in the cache and in CNI_IFNAME. */
export const LOOPBACK_IFNAME = "lo";

/**
 * Builds the network's configuration. Its version is the first that has CHECK;
 * the Go plugin knows it since 0.8, and no later one gives it more to do.
 */
export function buildLoopback(): NetworkConfList {
  const document = {
    cniVersion: "0.4.0",
    name: LOOPBACK_NETWORK,
    plugins: [{ type: "loopback" }],
  };
  return parseNetworkConfList(
    new TextEncoder().encode(JSON.stringify(document)),
  );
}
