/**
 * Networks created by podman, and the parts that a chain hides from it.
 *
 * podman keeps no list of its networks apart from their files. It reads the
 * bridges and subnets in use, and what `podman network rm` must delete, from
 * the first plugin of each file, if it knows that plugin.
 *
 * Source: containers/common libnetwork/cni/cni_conversion.go, cni_types.go.
 *
 * @module
 */

import { objectOf } from "../cni/json.ts";
import type { PluginConf } from "../cni/libcni/conf.ts";
import { CHAIN, unfoldChains, type WrittenNetwork } from "./chain_form.ts";

/** podman's entry in `args` of a network: its creation options. */
const ARGS = ["podman_labels", "podman_options"];

/**
 * Explains the effects of a chain at the beginning of a network on podman;
 * undefined if there is no such chain, or podman did not create the network.
 */
export function findHiddenFromPodman(
  network: WrittenNetwork,
): string | undefined {
  const { list: { name, plugins } } = network;
  const [first] = plugins;
  if (first?.type !== CHAIN || !isOfPodman(network)) return undefined;
  return `podman cannot see inside the chain of "${name}": it may give the ` +
    "bridge's name and subnet to another network, and will not remove the bridge";
}

function isOfPodman({ list: { plugins }, document }: WrittenNetwork): boolean {
  const args = objectOf(document["args"]);
  return ARGS.some((key) => key in args) ||
    unfoldChains(plugins).some(hasPodmanBridge);
}

function hasPodmanBridge({ document: { bridge } }: PluginConf): boolean {
  return typeof bridge === "string" && /^cni-podman\d+$/.test(bridge);
}
