/**
 * Subnets that a node does not use yet.
 *
 * @module
 */

import type { IpFamily } from "../../net/ip.ts";
import { Cidr } from "../../net/cidr.ts";
import { OWN_NETNS } from "../../ffi/own_netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { listNetworks } from "../node/network.ts";
import { unfoldChains } from "../node/chain_form.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";
import { listRanges } from "../validate/addresses.ts";
import { ipamTypeOf } from "../../cni/config/ipam.ts";

/** Subnets in use on a node. */
export interface NodeSubnets {
  /** The subnets of addresses, routes and configured networks. */
  readonly taken: readonly Cidr[];
  /** The link of the default route; undefined without a default route. */
  readonly uplink: string | undefined;
}

/** Reads the subnets of the host's links and routes, and of other networks. */
export function readNodeSubnets(
  confDir: string,
  hostNetns = OWN_NETNS,
): NodeSubnets {
  using host = Rtnl.open(hostNetns);
  const routes = host.route.list();
  const isDefault = ({ prefixLength }: Cidr): boolean => prefixLength === 0;
  const ifindex = routes.find(({ destination }) => isDefault(destination))
    ?.ifindex;
  const uplink = host.link.list().find((link) => link.index === ifindex);
  return {
    taken: [
      ...host.address.list().map(({ address }) => address.masked()),
      ...routes.map(({ destination }) => destination)
        .filter((destination) => !isDefault(destination)),
      ...listConfigured(confDir),
    ],
    uplink: uplink?.name,
  };
}

function listConfigured(confDir: string): Cidr[] {
  return listNetworks(confDir).flatMap(({ list }) =>
    unfoldChains(list.plugins).flatMap((conf) =>
      listRanges({
        folded: conf.document,
        ipamMetadata: METADATA.get(ipamTypeOf(conf.document) ?? ""),
      }).map(({ subnet }) => subnet)
    )
  );
}

/**
 * Finds a subnet that does not overlap others: a /24 of 10.22.0.0/16 and what
 * follows, or a /64 of fd00:22::/32 and what follows.
 *
 * @throws {Error} If none is left
 */
export function findFreeSubnet(
  family: IpFamily,
  taken: readonly Cidr[],
): Cidr {
  for (let block = 22; block < 256; block++) {
    for (let index = 0; index < (family === 4 ? 256 : 1); index++) {
      const subnet = Cidr.parse(
        family === 4 ? `10.${block}.${index}.0/24` : `fd00:${block}::/64`,
      );
      if (!taken.some((other) => other.overlaps(subnet))) return subnet;
    }
  }
  throw new Error(`No IPv${family} subnet is free: choose one with --subnet`);
}
