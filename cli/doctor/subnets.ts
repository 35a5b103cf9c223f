/**
 * Subnets of networks that overlap each other, or routes of the host.
 *
 * @module
 */

import { findValue, objectOf } from "../../base/json/json.ts";
import { shell } from "../../base/command_line/shell.ts";
import { isBridge, type Link } from "../../ffi/rtnl/link.ts";
import type { Cidr } from "../../net/cidr.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";
import {
  gatewayAddressesOf,
  isInTheWay,
} from "../../plugins/bridge/inspect.ts";
import { listAddresses } from "../../plugins/parts/link/configure_link.ts";
import type { Range } from "../../ipam/host_local/inspect.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  warning,
} from "./finding.ts";
import type { NodeReader, PlacedConf } from "../node/node_reader.ts";
import { listLive } from "../node/live.ts";
import { adviseOtherLink, listSubnets, sharedLinkOf } from "../node/routed.ts";
import { listPools } from "../node/pools.ts";
import { listUplinks } from "../node/routers.ts";

/** Finds networks that assign the same addresses. */
function findOverlaps(node: NodeReader): Findings {
  const { networks } = node;
  const pools = listPools({ networks });
  const places = networks.flatMap((network) =>
    network.plugins.flatMap((conf) =>
      listSubnets(conf).map((subnet) => ({ network, conf, subnet }))
    )
  );
  const findings = new Map<string, Finding>();
  for (const [at, one] of places.entries()) {
    for (const other of places.slice(0, at)) {
      if (one.network.name === other.network.name) continue;
      if (!one.subnet.overlaps(other.subnet)) continue;
      const [left, right] = [other.network.name, one.network.name];
      const rangesOf = (name: string): Range[] =>
        pools.filter(({ network }) => network.name === name)
          .flatMap(({ sets }) => sets.flat())
          .filter(({ subnet }) => subnet.overlaps(one.subnet));
      const areApart = rangesOf(left).length > 0 &&
        rangesOf(right).length > 0 &&
        !rangesOf(left).some((range) =>
          rangesOf(right).some((another) => overlap(range, another))
        );
      // Several networks can share a bridge, each with a part of the subnet.
      if (areApart && isSameBridge(one, other)) continue;
      findings.set(
        `${left}/${right}`,
        warning(
          `"${left}" and "${right}" overlap: ${other.subnet} and ${one.subnet}`,
          areApart
            ? "the node reaches the containers of only one of them"
            : "two containers can get the same address",
          {
            advice:
              `give one of them a different subnet, in ${one.network.path}`,
            look: node.cni(shell`validate ${one.network.path}`),
          },
        ),
      );
    }
  }
  return [...findings.values()];
}

function overlap(left: Range, right: Range): boolean {
  return left.start.family === right.start.family &&
    left.start.compare(right.end) <= 0 && right.start.compare(left.end) <= 0;
}

function isSameBridge(one: PlacedConf, other: PlacedConf): boolean {
  return one.conf.type === other.conf.type &&
    sharedLinkOf(one.conf) === sharedLinkOf(other.conf);
}

/** Reports whether plugins, rather than a different program, created a link on the host. */
function isMade(node: NodeReader, link: Link | undefined): boolean {
  if (link === undefined) return false;
  if (link.kind === "veth") {
    return !listUplinks(node).some(({ index }) => index === link.index);
  }
  return isBridge(link) && listSharedLinks(node).includes(link.name);
}

/** Lists the links that containers share, including the defaults of plugins. */
function listSharedLinks({ networks }: NodeReader): string[] {
  return [
    ...[...METADATA.values()].map(({ network }) => network?.sharedLink?.usual),
    ...networks.flatMap(({ plugins }) => plugins.map(sharedLinkOf)),
  ].filter((name) => name !== undefined);
}

/** Finds networks with addresses to which the host has other routes. */
function findHostOverlaps(node: NodeReader): Findings {
  const { host, networks } = node;
  const links = new Map(host.link.list().map((link) => [link.index, link]));
  const isOwn = (index: number): boolean => isMade(node, links.get(index));
  const direct = host.route.list({}).filter((route) =>
    route.gateway === undefined && route.destination.prefixLength > 0 &&
    !isOwn(route.ifindex ?? 0)
  );
  const further = host.route.list({}).filter((route) =>
    route.gateway !== undefined && route.destination.prefixLength > 0
  );
  return networks.flatMap((network) =>
    network.plugins
      .filter(({ type }) => METADATA.get(type)?.network?.joins !== "lower link")
      .flatMap((conf) =>
        listSubnets(conf).flatMap((subnet) => {
          const near = direct.find(({ destination, ifindex }) =>
            destination.overlaps(subnet) &&
            !isWholeNetwork(network, conf, destination) &&
            links.get(ifindex ?? 0)?.name !== (sharedLinkOf(conf) ?? "")
          );
          // A wider route is used for all other addresses.
          const far = further.find(({ destination }) =>
            subnet.containsCidr(destination)
          );
          const route = near ?? far;
          if (route === undefined) return [];
          const link = links.get(route.ifindex ?? 0)?.name ?? "?";
          return [
            warning(
              `${subnet} of "${network.name}" overlaps the host's route to ` +
                `${route.destination} over "${link}"`,
              "the node and its containers cannot reach hosts there, or " +
                "containers are unreachable",
              {
                advice:
                  `give the network a different subnet, in ${network.path}, ` +
                  "or remove the route if it is not needed",
                look: shell`ip route show ${route.destination}`,
              },
            ),
          ];
        })
      )
  );
}

/**
 * Reports whether a route is to the network of all nodes, which a plugin such as flannel
 * also adds to its containers' routes: a tunnel to the other nodes might have the same
 * route, as the WireGuard link of flanneld does.
 */
function isWholeNetwork(
  { list }: PlacedConf["network"],
  { document }: PlacedConf["conf"],
  destination: Cidr,
): boolean {
  const routes = findValue(objectOf(findValue(document, "ipam")), "routes");
  return list.plugins.some(({ type }) => METADATA.get(type)?.onNode) &&
    Array.isArray(routes) &&
    routes.some((route) =>
      findValue(objectOf(route), "dst") === `${destination}`
    );
}

/** Finds bridges that cannot get the address of their network's gateway. */
function findBridgeAddresses(node: NodeReader): Findings {
  const { host, networks } = node;
  const pools = listPools({ networks }).flatMap((pool) => {
    const { type, document } = pool.conf;
    const gateway = METADATA.get(type)?.network?.gatewayLink?.(document);
    if (gateway === undefined || gateway.replaces) return [];
    return [{ ...pool, name: gateway.name }];
  });
  const isIn = (list: readonly Cidr[], one: Cidr): boolean =>
    list.some((other) => other.equals(one));
  const used = pools.flatMap(({ sets }) => sets.flat().flatMap(gatewayOf));
  return pools.flatMap(({ network, conf, sets, name }) => {
    const link = host.link.find(name);
    if (link === undefined) return [];
    const present = listAddresses(host, link).map(({ address }) => address);
    const gateways = sets.map((set) => set.flatMap(gatewayOf));
    const others = present.filter((one) => !isIn(gateways.flat(), one));
    // A bridge with the gateway of a set might also have other addresses.
    const missing = gateways
      .filter((some) => !some.some((gateway) => isIn(present, gateway))).flat();
    return missing.flatMap((gateway) => {
      const other = others.find((one) => isInTheWay(one, gateway));
      if (other === undefined) return [];
      const isUsed = isIn(used, other) ||
        listLive(node).some(({ entry, addresses }) =>
          entry?.name === link.name &&
          addresses.some(({ ip }) => other.contains(ip))
        );
      const so = "containers of that network do not start";
      const command = shell`ip address del ${other} dev ${link.name}`;
      return [
        error(
          `the bridge "${link.name}" has ${other}, and "${network.name}" ` +
            `needs ${gateway}`,
          isUsed ? `${so}; others use ${other}: choose another bridge` : so,
          // Without the address, containers that use it are cut off.
          isUsed ? { advice: adviseOtherLink(network, conf) } : { command },
        ),
      ];
    });
  });
}

function gatewayOf({ gateway, subnet }: Range): Cidr[] {
  return gatewayAddressesOf([{ address: subnet, gateway }]);
}

/** Checks of subnets. */
export const SUBNET_CHECKS: readonly Check[] = [
  {
    code: "CNI0507",
    name: "subnet-overlap",
    finds: "the subnets of two networks overlap",
    effect:
      "Two containers can get the same address, or the node reaches only one network.",
    cause: "They were configured by hand or by two programs.",
    howToInspect: "`cni networks`.",
    howToFix: "Change the subnet of one of them, and restart its containers.",
    run: findOverlaps,
  },
  {
    code: "CNI0508",
    name: "subnet-host",
    finds: "the host has a route to addresses of a network",
    effect: "The node cannot reach hosts there, or containers are unreachable.",
    cause: "It is also the subnet of the node, a VPN or another program.",
    howToInspect: "`ip route`.",
    howToFix: "Change the subnet; `cni init` suggests a free one.",
    run: findHostOverlaps,
  },
  {
    code: "CNI0509",
    name: "bridge-address",
    finds: "a bridge has an address outside its network's subnet",
    effect: "Containers of that network do not start.",
    cause: "The network had a different subnet before.",
    howToInspect: "`ip address show dev BRIDGE`.",
    howToFix:
      "`ip address del` if no container uses it; otherwise use a different `bridge`.",
    run: findBridgeAddresses,
  },
];
