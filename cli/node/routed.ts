/**
 * Configured networks with containers behind the node as their router.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { findValue, objectOf } from "../../base/json/json.ts";
import { Cidr } from "../../net/cidr.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";
import type { ConfiguredNetwork, NodeReader } from "./node_reader.ts";
import type { PluginConf } from "../../libcni/mod.ts";
import { ipamOf } from "../../cni/config/ipam.ts";

/** One subnet of such a network. */
export interface RoutedNetwork {
  readonly network: ConfiguredNetwork;
  readonly conf: PluginConf;
  readonly subnet: Cidr;
  /** Its bridge; undefined if each container has a link of its own. */
  readonly link: string | undefined;
}

/** Lists the subnets for which the node routes. */
export function listRouted(
  { networks }: Pick<NodeReader, "networks">,
): RoutedNetwork[] {
  return networks.flatMap((network) =>
    network.plugins.filter(isRouter).flatMap((conf) =>
      listSubnets(conf).map((subnet) => ({
        network,
        conf,
        subnet,
        link: sharedLinkOf(conf),
      }))
    )
  );
}

/** A plugin's configuration. */
type Conf = Pick<PluginConf, "type" | "document">;

/** Returns the name of the link that all containers share; undefined if each has its own. */
export function sharedLinkOf({ type, document }: Conf): string | undefined {
  const shared = METADATA.get(type)?.network?.sharedLink;
  return shared && String(findValue(document, shared.key) || shared.usual);
}

/** Returns the key that names that link. */
export function sharedLinkKeyOf({ type }: Conf): string | undefined {
  return METADATA.get(type)?.network?.sharedLink?.key;
}

/** Explains how to give the containers of a network another link to share. */
export function adviseOtherLink(
  { path }: ConfiguredNetwork,
  conf: Conf,
): string {
  return `set "${sharedLinkKeyOf(conf)}" in ${path} to another name`;
}

/** Reports whether a plugin makes the node its containers' router. */
function isRouter({ type, document }: PluginConf): boolean {
  const { hasGateway } = METADATA.get(type)?.network ?? {};
  return hasGateway !== undefined &&
    (hasGateway(document) || findValue(document, "ipMasq") === true);
}

/** Lists the subnets of a plugin's addresses, as far as its configuration names them. */
export function listSubnets({ document }: PluginConf): Cidr[] {
  const ipam = ipamOf(document);
  const [subnet, ranges, addresses] = ["subnet", "ranges", "addresses"]
    .map((key) => findValue(ipam, key));
  const sets = Array.isArray(ranges) ? ranges.flat() : [];
  const texts = [
    subnet,
    ...sets.map((range) => findValue(objectOf(range), "subnet")),
    ...(Array.isArray(addresses) ? addresses : [])
      .map((one) => findValue(objectOf(one), "address")),
  ];
  return texts.flatMap((text) => {
    const cidr = typeof text === "string"
      ? ifPossible(() => Cidr.parse(text).masked())
      : undefined;
    return cidr === undefined ? [] : [cidr];
  });
}
