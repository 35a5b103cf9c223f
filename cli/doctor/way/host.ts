/**
 * The second part of a packet's way: from the host to the outside.
 *
 * @module
 */

import { shell } from "../../../base/command_line/shell.ts";
import { createLog } from "../../../base/log/log.ts";
import { isBridge } from "../../../ffi/rtnl/link.ts";
import { RuleRequests } from "../../../ffi/rtnl/rule.ts";
import type { Ip } from "../../../net/ip.ts";
import { FORWARDING } from "../../../plugins/parts/address/ip_forward.ts";
import { checkMasquerade } from "../../../plugins/parts/firewall/masquerade/mod.ts";
import { formatFailureText } from "../../../base/command_line/failure.ts";
import { adviseRestart } from "../live.ts";
import { nameOfSysctl, readHostSysctl } from "../sysctls.ts";
import { findNeighbor } from "./neighbor.ts";
import {
  ends,
  inFamily,
  leaves,
  type Outcome,
  type Step,
  type Trip,
} from "./trip.ts";
import { findWayBack, lookUpOnHost } from "./way_back.ts";

function findRouter(trip: Trip): Outcome | undefined {
  const { node, entry } = trip;
  const gateway = trip.route?.gateway ?? trip.gateway;
  if (gateway === undefined || entry === undefined) {
    return leaves("no gateway on this node; the rest of its way is outside");
  }
  const owner = node.host.address.list()
    .find(({ address }) => address.ip.equals(gateway));
  if (owner === undefined) {
    return leaves(
      `${gateway} is not an address of this node; the rest of its way is outside`,
    );
  }
  return undefined;
}

function findForwarding({ node, family, entry }: Trip): Outcome | undefined {
  const key = FORWARDING[family];
  if (readHostSysctl(node, key) === "0") {
    const name = nameOfSysctl(key);
    return ends(`${name} is 0`, shell`sysctl -w ${name}=1`);
  }
  // For IPv6, a link's own parameter only says whether the host is a router there.
  const own = `net/ipv4/conf/${entry?.name}/forwarding`;
  if (family === 4 && readHostSysctl(node, own) === "0") {
    const name = nameOfSysctl(own);
    return ends(`${name} is 0`, shell`echo 1 > /proc/sys/${own}`);
  }
  return undefined;
}

function findUplinkRoute(trip: Trip): Outcome | undefined {
  const { node, entry, destination, start } = trip;
  if (trip.hasDefaultRoute === false) {
    return leaves("the network has no default route; it ends on this node");
  }
  const source = start.address.ip;
  trip.hostRoute = lookUpOnHost(trip, {
    destination,
    source,
    inputIndex: entry?.index,
  });
  if (trip.hostRoute === undefined) {
    // Many nodes give containers IPv6 addresses, and have no IPv6 uplink.
    if (
      trip.family === 6 && lookUpOnHost(trip, { destination }) === undefined
    ) {
      return leaves(
        "the host itself has no IPv6 route to the outside; it ends on this node",
      );
    }
    return explainNoRoute(trip, source);
  }
  const { ifindex = 0 } = trip.hostRoute;
  const uplink = node.host.link.find(ifindex);
  const { name } = uplink ?? {};
  if (!uplink?.isUp) {
    return ends(`the uplink "${name}" is down`, shell`ip link set ${name} up`);
  }
  const master = uplink.masterIndex === undefined
    ? undefined
    : node.host.link.find(uplink.masterIndex);
  if (master !== undefined && isBridge(master)) {
    return ends(
      `the uplink "${name}" is a port of the bridge "${master.name}", which has ` +
        "its frames",
      {
        command: shell`ip link set ${name} nomaster`,
        advice: `or give its addresses and routes to "${master.name}"`,
        look: shell`ip -details link show ${name}`,
      },
    );
  }
  if (!uplink.isOperational) {
    return ends(
      `the uplink "${name}" is without carrier`,
      shell`ip -details link show ${name}`,
    );
  }
  return undefined;
}

/** Reports whether a rule or a route stops packets of a container. */
function explainNoRoute(
  { node, destination, entry, family }: Trip,
  source: Ip,
): Outcome {
  const look =
    shell`ip route get ${destination} from ${source} iif ${entry?.name}`;
  const rules = new RuleRequests(node.host.socket).list();
  const rule = rules.find((one) =>
    one.stops && one.source.family === family && one.source.contains(source)
  );
  if (rule !== undefined) {
    const { priority } = rule;
    const from = rule.source.prefixLength === 0 ? "all" : `${rule.source}`;
    return ends(
      `the routing rule ${priority} of the host stops packets from ${from}`,
      {
        command: inFamily(family, `ip rule del pref ${priority}`),
        look: inFamily(family, "ip rule"),
      },
    );
  }
  return ends(
    `the host has no route to the outside for packets from ${source}`,
    lookUpOnHost({ node }, { destination }) === undefined
      ? {
        advice: "add a default route by the program that manages the node's " +
          "network",
        look: "ip route show default",
      }
      : {
        advice: "remove the routing rule or the route that stops them: the " +
          "host's own packets have one",
        look: `${look}; ip rule; ip route show table all`,
      },
  );
}

async function findMasquerade(trip: Trip): Promise<Outcome | undefined> {
  const { node, plugins, start: { attachment, address } } = trip;
  const conf = plugins.find((plugin) =>
    Object.entries(plugin).some(([key, value]) =>
      key.toLowerCase() === "ipmasq" && value === true
    )
  );
  if (attachment === undefined) return undefined;
  if (conf === undefined) {
    return undefined;
  }
  const { network, containerId, ifName } = attachment;
  try {
    await checkMasquerade({
      owner: { network, containerId, ifName },
      hostNetns: node.hostNetns,
      backend: undefined,
      path: node.env["PATH"],
      log: createLog({}, () => {}),
    }, [address]);
    return undefined;
  } catch (error) {
    return ends(formatFailureText(error), {
      ...adviseRestart(attachment),
      look: "nft list ruleset | grep masquerade",
    });
  }
}

function findUplinkGateway({ node, hostRoute }: Trip): Outcome | undefined {
  const { gateway, ifindex = 0 } = hostRoute ?? {};
  const link = node.host.link.find(ifindex)?.name;
  return gateway === undefined || link === undefined
    ? undefined
    : findNeighbor(node.host, gateway, { link, inNetns: (command) => command });
}

/** The steps from the host to the outside. */
export const HOST_STEPS: readonly Step[] = [
  { name: "router", run: findRouter },
  { name: "forwarding", run: findForwarding },
  { name: "return-route", run: findWayBack },
  { name: "uplink", run: findUplinkRoute },
  { name: "masquerade", run: findMasquerade },
  { name: "uplink-gateway", run: findUplinkGateway },
];
