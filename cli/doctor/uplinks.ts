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
import { resultOf } from "../node/node_attachments.ts";
import type { NodeReader } from "../node/node_reader.ts";
import { listRouted } from "../node/routed.ts";
import { listDefaultRoutes, listUplinks } from "../node/routers.ts";

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

/** Lists links with addresses that may lead to the outside. */
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
    // A bridge may have the node's cable as a port.
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

/** Checks of uplinks. */
export const UPLINK_CHECKS: readonly Check[] = [
  {
    code: "CNI0605",
    name: "uplink",
    finds: "the node has no default route, or an uplink without carrier",
    effect: "Containers reach nothing outside the node.",
    cause: "A link was set down, DHCP has failed, or a cable is unplugged.",
    look: "`ip route`, `ip -brief link`, `networkctl` or `nmcli`.",
    fix:
      "No fix is needed if the node is isolated on purpose. Otherwise set the link up and add its routes in the program that manages the node's network.",
    run: findNoUplink,
  },
];
