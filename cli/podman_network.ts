/**
 * Networks that podman has made, and what of them it cannot see in a chain.
 *
 * podman has no list of its networks beside their files: which bridges and
 * subnets are in use, and what `podman network rm` shall delete, it reads in the
 * first plugin of each, if that is one that it knows.
 *
 * Source: containers/common libnetwork/cni/cni_conversion.go, cni_types.go.
 *
 * @module
 */

import { objectOf } from "../cni/json.ts";
import type { PluginConf } from "../cni/libcni/conf.ts";
import { CHAIN, unfoldChains, type WrittenNetwork } from "./chain_form.ts";

/** What podman puts into `args` of a network: what it was given for it. */
const ARGS = ["podman_labels", "podman_options"];

/**
 * Says what podman will do for not seeing into the chain at the beginning of a
 * network; undefined if there is none, or the network has no mark of podman's.
 */
export function findHiddenFromPodman(
  network: WrittenNetwork,
): string | undefined {
  const { list: { name, plugins } } = network;
  const [first] = plugins;
  if (first?.type !== CHAIN || !isOfPodman(network)) return undefined;
  return `podman does not see into the chain of "${name}": it may give its ` +
    "bridge's name and subnet to another network, and does not remove its bridge";
}

function isOfPodman({ list: { plugins }, document }: WrittenNetwork): boolean {
  const args = objectOf(document["args"]);
  return ARGS.some((key) => key in args) ||
    unfoldChains(plugins).some(hasPodmanBridge);
}

function hasPodmanBridge({ document: { bridge } }: PluginConf): boolean {
  return typeof bridge === "string" && /^cni-podman\d+$/.test(bridge);
}
