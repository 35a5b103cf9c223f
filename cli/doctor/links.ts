/**
 * Links of the host that configured networks need.
 *
 * @module
 */

import { findValue } from "../../base/json/json.ts";
import { shell } from "../../base/command_line/shell.ts";
import type { LowerLink } from "../../metadata/plugin_metadata.ts";
import { isBridge, type Link } from "../../ffi/rtnl/link.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";
import { NO_CARRIER } from "../probe/explain_route.ts";
import { didYouMean } from "../../base/command_line/suggest.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  warning,
} from "./finding.ts";
import { findMaster } from "../node/live.ts";
import type { NodeReader, PlacedConf } from "../node/node_reader.ts";
import { adviseOtherLink, listSubnets, sharedLinkOf } from "../node/routed.ts";
import { listUplinks } from "../node/routers.ts";
import { nameOfSysctl, readSysctlOf } from "../node/sysctls.ts";

/** A plugin, and the link that it needs. */
interface Needed extends PlacedConf {
  readonly lower: LowerLink;
  /** Undefined if it does not exist. */
  readonly link: Link | undefined;
}

/** Lists the plugins of all networks. */
function listPlaced({ networks }: NodeReader): PlacedConf[] {
  return networks.flatMap((network) =>
    network.plugins.map((conf) => ({ network, conf }))
  );
}

function listNeeded(node: NodeReader): Needed[] {
  return listPlaced(node).flatMap(({ network, conf }) => {
    const metadata = METADATA.get(conf.type)?.network;
    const lower = metadata?.lowerLink?.(conf.document);
    if (lower === undefined) return [];
    const link = lower.name === undefined
      ? listUplinks(node)[0]
      : node.host.link.find(lower.name);
    return [{ network, conf, lower, link }];
  });
}

function findMissingLinks(node: NodeReader): Findings {
  return listNeeded(node).flatMap(({ network, conf, lower, link }) => {
    // A container might have the link.
    const isAway = lower.use === "moved" &&
      node.liveAttachments.some((one) => one.network === network.name);
    if (link !== undefined || isAway) return [];
    const so = `containers of "${network.name}" do not start`;
    if (lower.name === undefined) {
      return [error(
        `"${network.name}" names no ${lower.key} for ${conf.type}, and the node ` +
          "has no default route to take the link from",
        so,
        {
          advice: `set "${lower.key}" in ${network.path}`,
          look: "ip -brief link",
        },
      )];
    }
    const names = node.host.link.list().map(({ name }) => name);
    const hint = didYouMean(lower.name, names);
    return [error(
      `"${lower.name}", the ${lower.key} of "${network.name}", does not ` +
        `exist${hint}`,
      so,
      {
        advice: `set "${lower.key}" in ${network.path} to a link of this ` +
          "node, or create that link",
        look: "ip -brief link",
      },
    )];
  });
}

/** The kernel gives the frames of a link to macvlan or to ipvlan, not to both. */
function findRivals(node: NodeReader): Findings {
  const takers = listNeeded(node)
    .filter(({ lower, link }) => lower.use === "receives" && link);
  const byLink = Map.groupBy(takers, ({ link }) => link?.name ?? "");
  return [...byLink].flatMap(([name, some]) => {
    const [first] = some;
    const other = some.find(({ conf }) => conf.type !== first?.conf.type);
    if (first === undefined || other === undefined) return [];
    return [warning(
      `"${name}" is the ${first.lower.key} of "${first.network.name}" ` +
        `(${first.conf.type}) and of "${other.network.name}" (${other.conf.type})`,
      "containers of one network do not start while the other network has any",
      {
        advice: "use the same type in both networks, or a different link, " +
          `in ${other.network.path}`,
        look: "ip -details link show type macvlan; " +
          "ip -details link show type ipvlan",
      },
    )];
  });
}

function findUnusableLinks(node: NodeReader): Findings {
  return [...findUnusable(node), ...findRivals(node)];
}

function findUnusable(node: NodeReader): Findings {
  const uplinks = listUplinks(node);
  return listNeeded(node).flatMap(({ network, conf, lower, link }) => {
    if (link === undefined) return [];
    const { name } = link;
    const isUplink = uplinks.some(({ index }) => index === link.index);
    const what = `"${name}", the ${lower.key} of "${network.name}",`;
    const findings: Finding[] = [];
    if (lower.use === "moved") {
      if (!isUplink) return [];
      return [error(
        `${what} is the uplink of this node`,
        "the first container takes it away, and the node is cut off",
        {
          advice: `set "${lower.key}" in ${network.path} to another link`,
          look: "ip route show default",
        },
      )];
    }
    if (lower.use === "receives" && name === "lo") {
      findings.push(error(
        `${what} is the loopback`,
        `the kernel refuses ${conf.type} there: containers do not start`,
        {
          advice: `set "${lower.key}" in ${network.path} to another link`,
          look: "ip -brief link",
        },
      ));
    }
    if (!link.isUp) {
      findings.push(error(
        `${what} is down`,
        "containers of that network reach no other host",
        { command: shell`ip link set ${name} up` },
      ));
    } else if (!link.isOperational) {
      findings.push(error(
        `${what} has no carrier`,
        "containers of that network reach no host beyond it",
        {
          advice: NO_CARRIER,
          look: shell`ip -details link show ${name}`,
        },
      ));
    }
    const master = findMaster(node.host, link);
    if (lower.use === "receives" && master && isBridge(master)) {
      findings.push(error(
        `${what} is a port of the bridge "${master.name}", which receives its frames`,
        `the kernel refuses ${conf.type} there: containers do not start`,
        {
          advice: `set "${lower.key}" in ${network.path} to "${master.name}"`,
          look: shell`ip -details link show ${name}`,
        },
      ));
    }
    const mtu = findValue(conf.document, "mtu");
    if (typeof mtu === "number" && mtu > link.mtu) {
      findings.push(error(
        `"${network.name}" sets MTU ${mtu}, but its ${lower.key} "${name}" has ` +
          `${link.mtu}`,
        "ADD refuses it, and containers of that network do not start",
        // What the node itself sends must pass the network behind its uplink.
        isUplink
          ? {
            advice: `set "mtu" in ${network.path} to ${link.mtu}`,
            look: shell`ip link show ${name}`,
          }
          : {
            command: shell`ip link set ${name} mtu ${mtu}`,
            advice: `or set "mtu" in ${network.path} to ${link.mtu}, if the ` +
              "network behind it takes no larger packets",
          },
      ));
    }
    return findings;
  });
}

/** Finds other links that have the name of a network's bridge. */
function findTakenNames(node: NodeReader): Findings {
  return listPlaced(node).flatMap(({ network, conf }) => {
    const name = sharedLinkOf(conf);
    const link = name === undefined ? undefined : node.host.link.find(name);
    if (link === undefined || isBridge(link)) return [];
    return [error(
      `"${name}", the bridge of "${network.name}", is not a bridge but ` +
        (link.kind === "" ? "a physical link" : `a link of type ${link.kind}`),
      "containers of that network do not start",
      {
        advice: adviseOtherLink(network, conf) +
          (link.kind === "" ? "" : `, or delete "${name}" if it is not in use`),
        look: shell`ip -details link show ${name}`,
      },
    )];
  });
}

/** Finds networks with IPv6 addresses for links on which IPv6 is disabled. */
function findNoIpv6(node: NodeReader): Findings {
  const keys = new Map<string, string>();
  const ofDefault = "net/ipv6/conf/default/disable_ipv6";
  for (const { network, conf } of listPlaced(node)) {
    const { hasGateway } = METADATA.get(conf.type)?.network ?? {};
    if (hasGateway === undefined) continue;
    if (!listSubnets(conf).some(({ family }) => family === 6)) continue;
    const bridge = sharedLinkOf(conf);
    const isThere = bridge !== undefined &&
      node.host.link.find(bridge) !== undefined;
    const key = isThere ? `net/ipv6/conf/${bridge}/disable_ipv6` : ofDefault;
    if (!keys.has(key)) keys.set(key, network.name);
  }
  return [...keys].flatMap(([key, network]) => {
    const value = readSysctlOf(node.host, key);
    const so =
      `"${network}" assigns IPv6 addresses, but ADD cannot assign one ` +
      "to the host's end: its containers do not start";
    if (value === "0") return [];
    if (value === undefined) {
      return [error(`the kernel runs without IPv6`, so, {
        advice: "boot without ipv6.disable=1, or remove the IPv6 range of " +
          `"${network}"`,
        look: "cat /proc/cmdline",
      })];
    }
    return [error(`${nameOfSysctl(key)} is ${value}`, so, {
      command: key === ofDefault
        ? shell`sysctl -w ${nameOfSysctl(key)}=0`
        : shell`echo 0 > /proc/sys/${key}`,
      advice: "and in /etc/sysctl.d, where it was set",
    })];
  });
}

/** Checks of links. */
export const LINK_CHECKS: readonly Check[] = [
  {
    code: "CNI0501",
    name: "link-missing",
    finds: "the master or the device of a network does not exist",
    effect: "Containers of that network do not start.",
    cause:
      "The file was written for another node, the link has a different name, or a VLAN or bond was not created.",
    howToInspect: "`ip -brief link`.",
    howToFix:
      "Set `master` or `device` to a link of the node, or create the link.",
    run: findMissingLinks,
  },
  {
    code: "CNI0502",
    name: "link-unusable",
    finds:
      "the master or the device of a network is down, is in use, has too small an MTU, or is the uplink",
    effect:
      "Containers reach nothing, ADD fails, or with host-device the node loses its uplink.",
    cause:
      "The link was never set up, it became a port of a bridge, its MTU is too small, or it is the wrong link.",
    howToInspect: "`ip -details link show LINK`.",
    howToFix:
      "`ip link set LINK up`, name the bridge instead of its port, or name another link.",
    run: findUnusableLinks,
  },
  {
    code: "CNI0503",
    name: "bridge-name",
    finds: "another link has the name of a network's bridge",
    effect: "Containers of that network do not start.",
    cause: "Another program or configuration created a link of that name.",
    howToInspect: "`ip -details link show LINK`.",
    howToFix:
      "Use a different `bridge` in the configuration, or delete the link.",
    run: findTakenNames,
  },
  {
    code: "CNI0304",
    name: "ipv6-disabled",
    finds:
      "a network assigns IPv6 addresses, but IPv6 is disabled on the host's links",
    effect: "ADD fails to assign the host's address.",
    cause:
      "`disable_ipv6` was set, or the kernel booted with `ipv6.disable=1`.",
    howToInspect: "`sysctl -a -r disable_ipv6`.",
    howToFix: "Set it to 0, also in /etc/sysctl.d, or remove the IPv6 range.",
    run: findNoIpv6,
  },
];
