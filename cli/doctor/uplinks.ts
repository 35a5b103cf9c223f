/**
 * The node's uplinks and default routes.
 *
 * @module
 */

import { findValue } from "../../base/json/json.ts";
import { shell } from "../../base/command_line/shell.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import { NO_CARRIER } from "../probe/explain_route.ts";
import { type Check, error, type Findings, warning } from "./finding.ts";
import {
  listCachedPlugins,
  listLive,
  type LiveInterface,
} from "../node/live.ts";
import { resultOf } from "../../libcni/cached_result.ts";
import type { NodeReader } from "../node/node_reader.ts";
import { listRouted } from "../node/routed.ts";
import { listDefaultRoutes, listUplinks } from "../node/routers.ts";
import { readIp } from "../../metadata/problem.ts";

function findNoUplink(node: NodeReader): Findings {
  const users = listRouted(node).filter(({ subnet }) => subnet.family === 4);
  const [user] = users;
  if (user === undefined) return [];
  const hasRoute = listDefaultRoutes(node.host)
    .some(({ family }) => family === 4);
  return hasRoute
    ? findWithoutCarrier(node)
    : findNoRoute(node, user.network.name);
}

/** Finds links of the default route without carrier. */
export function findWithoutCarrier(node: Pick<NodeReader, "host">): Findings {
  const uplinks = listUplinks(node);
  return uplinks.filter(({ isUp, isOperational }) => isUp && !isOperational)
    .map(({ name }) =>
      error(
        `the uplink "${name}" has no carrier`,
        uplinks.length === 1
          ? "containers reach no host outside the node"
          : "packets of containers that leave through it are lost",
        {
          advice: NO_CARRIER,
          look: shell`ip -details link show ${name}`,
        },
      )
    );
}

/** Kinds of links that programs create for containers and tunnels. */
const VIRTUAL = ["bridge", "dummy", "ifb", "ipip", "sit", "tun", "vxlan"];

/** Lists links with addresses that might lead to the outside. */
function listOuterLinks(node: NodeReader): Link[] {
  const { host } = node;
  const addressed = new Set(
    host.address.list().filter(({ address: { ip } }) =>
      !ip.isLoopback && !ip.isLinkLocal
    ).map(({ ifindex }) => ifindex),
  );
  const links = host.link.list();
  const own = listLive(node).flatMap(({ hostEnd, entry }) => [
    hostEnd?.index,
    entry?.index,
  ]);
  return links.filter(({ index, kind }) => {
    if (!addressed.has(index) || own.includes(index)) return false;
    // A physical link of the node might be a port of a bridge.
    return !VIRTUAL.includes(kind) ||
      links.some((port) => port.masterIndex === index && port.kind === "");
  });
}

function findNoRoute(node: NodeReader, network: string): Findings {
  const outer = listOuterLinks(node);
  const live = listLive(node);
  // A node without uplinks is isolated on purpose, unless it masquerades a container.
  if (outer.length === 0 && !live.some(isSentOut)) return [];
  const down = outer.filter(({ isUp }) => !isUp).map(({ name }) => name);
  const [first] = down;
  // A node without containers might still be starting.
  const make = outer.length > 0 && live.some(({ isRouted }) => isRouted)
    ? error
    : warning;
  return [make(
    "the node has no IPv4 default route" +
      (first === undefined ? "" : `, and "${down.join('", "')}" is down`),
    `containers of "${network}" and others reach no host outside the node`,
    {
      command: first && down.length === 1
        ? shell`ip link set ${first} up`
        : undefined,
      advice: (first === undefined ? "add one" : `set "${first}" up`) +
        " with the program that manages the node's network, such as networkctl or " +
        "nmcli; on a node that is isolated on purpose, nothing is wrong",
      look: "ip route; ip -brief address",
    },
  )];
}

/** Reports whether a container has a default route by this node, and a masquerade. */
function isSentOut({ isRouted, cached }: LiveInterface): boolean {
  const hasDefault = resultOf(cached)?.routes.some(({ dst }) =>
    dst.family === 4 && dst.prefixLength === 0
  );
  return isRouted && hasDefault === true &&
    listCachedPlugins(cached).some((conf) =>
      findValue(conf, "ipMasq") === true
    );
}

/**
 * Finds outbound addresses in a subnet of the host that the host does not have: it
 * answers no ARP request for them. Whether a router sends it packets to other
 * addresses, the node does not know.
 */
function findOutbound(node: NodeReader): Findings {
  const { host } = node;
  const confs = [
    ...node.networks.flatMap(({ plugins }) =>
      plugins.map(({ document }) => document)
    ),
    ...listLive(node).flatMap(({ cached }) => listCachedPlugins(cached)),
  ].filter((conf) => findValue(conf, "ipMasq") === true);
  const outbound = new Map(
    confs.flatMap((conf) => {
      const outbound = findValue(conf, "outboundAddresses");
      return (Array.isArray(outbound) ? outbound : [])
        .flatMap((text) => readIp(text) ?? [])
        .map((ip) => [`${ip}`, ip] as const);
    }),
  );
  return [...outbound.values()].flatMap((ip) => {
    const entry = host.route.findMatch(ip);
    // What a default route without a gateway reaches is not the node's subnet.
    const isSubnet = entry?.isUnicast && !entry.hasGateway &&
      entry.destination.prefixLength > 0;
    if (!isSubnet) return [];
    const [hop] = entry.nextHops;
    const name = host.link.find(hop?.ifindex ?? 0)?.name;
    if (name === undefined) return [];
    return [error(
      `the outbound address ${ip} is in the subnet ${entry.destination} of ` +
        `"${name}", and the host does not have it`,
      "no answer reaches containers whose packets leave with it",
      {
        command: shell`ip address add ${ip}/${ip.bitLength} dev ${name}`,
        advice:
          "also add it in the program that manages the node's network, or correct outboundAddresses",
        look: shell`ip route get ${ip}`,
      },
    )];
  });
}

/** Checks of uplinks. */
export const UPLINK_CHECKS: readonly Check[] = [
  {
    code: "CNI0605",
    name: "uplink",
    finds: "the node has no default route, or an uplink without carrier",
    effect: "Containers reach nothing outside the node.",
    cause: "A link was set down, DHCP has failed, or a cable is unplugged.",
    howToInspect: "`ip route`, `ip -brief link`, `networkctl` or `nmcli`.",
    howToFix:
      "No fix is needed if the node is isolated on purpose. Otherwise set the link up and add its routes in the program that manages the node's network.",
    run: findNoUplink,
  },
  {
    code: "CNI0613",
    name: "outbound-address",
    finds: "`outboundAddresses` names an address that the host lacks",
    effect: "No answer reaches the containers.",
    cause:
      "`outboundAddresses` of ptp or bridge names an address in a subnet of the host that no link of the host has, for example because a restart of the network removed it or because it is on another node.",
    howToInspect:
      "`ip route get ADDRESS`, which begins with `local` on the right node.",
    howToFix:
      "Add the address to the host in the program that manages its network, or correct `outboundAddresses` and run `cni repair --all`.",
    run: findOutbound,
  },
];
