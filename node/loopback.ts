/**
 * The loopback network, the first network of every pod.
 *
 * @module
 */

import { type NetworkConfList, parseNetworkConfList } from "../libcni/mod.ts";

/** Network name, the same in kubelet, CRI-O and containerd. */
export const LOOPBACK_NETWORK = "cni-loopback";

/** Its interface, in the cache and in CNI_IFNAME. */
export const LOOPBACK_IFNAME = "lo";

/**
 * Builds the network's configuration. It uses the first version that has CHECK,
 * which the Go plugin has supported since 0.8.
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
