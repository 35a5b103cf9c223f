/**
 * Lost packets: `cni doctor` sends packets from each container and to it, and the
 * kernel reports where they end.
 *
 * @module
 */

import { listed } from "./finding.ts";
import { ifPossible } from "../../base/files/io.ts";
import { Endpoints } from "../probe/endpoint.ts";
import { OutsideClient } from "../probe/outside.ts";
import {
  describeLoss,
  isProblem,
  probeAll,
  type Probed,
  targetOf,
} from "../probe/run.ts";
import {
  hasHostPorts,
  listHostPorts,
  listWanted,
  type Wanted,
} from "../probe/targets.ts";
import { type Check, error, type Finding, type Findings } from "./finding.ts";
import { type NodeReader, oncePerNode } from "../node/node_reader.ts";

/** Probes all containers. */
const probeContainers = oncePerNode(
  async (node): Promise<readonly Probed[]> => {
    using endpoints = new Endpoints(node);
    for (const attachment of node.liveInterfaces) {
      // A namespace can be deleted at any time.
      ifPossible(() => endpoints.add(attachment.netns, [attachment]));
    }
    const { all } = endpoints;
    const wanted = all.flatMap((subject) => {
      const others = all.filter((other) =>
        other.network === subject.network &&
        other.start.address.family === subject.start.address.family
      );
      // Each container probes the next container of its network.
      const next = others[(others.indexOf(subject) + 1) % others.length];
      return listWanted(node, subject, next === subject ? undefined : next);
    });
    const ports = all.filter(hasHostPorts);
    if (ports.length === 0) return await probeAll(node, wanted);
    using client = await OutsideClient.create(node);
    const asked = ports.flatMap((subject) =>
      listHostPorts(node, subject, client)
    );
    return await probeAll(node, [...wanted, ...asked]);
  },
);

/** Finds the causes of lost packets that belong to a check. */
async function findLosses(node: NodeReader, check: string): Promise<Findings> {
  const lost = (await probeContainers(node))
    .filter(({ cause }) => isProblem(cause) && cause.check === check);
  return [...Map.groupBy(lost, ({ cause }) => cause?.text).values()]
    .map(describe);
}

function describe(some: readonly Probed[]): Finding {
  const [{ cause, wanted } = {}] = some;
  const { text = "", advice, look } = cause ?? {};
  // A policy needs an exception for each subnet.
  const commands = new Set(some.flatMap(({ cause }) => cause?.command ?? []));
  return error(text, describeLosses(some.map(({ wanted }) => wanted)), {
    command: [...commands].join("; ") || undefined,
    advice,
    look,
    subject: wanted?.subject.origin.name,
    isSymptom: cause?.isSymptom,
    about: some.map(({ wanted: { subject, peer } }) =>
      [subject, peer].flatMap((end) => end?.origin.name ?? [])
    ),
  });
}

/** How many containers that lose the same packets are named, and how many different losses. */
const MOST_SENDERS = 10, MOST_LOSSES = 3;

/** Describes which containers do not reach what, as the effect of a cause. */
function describeLosses(all: readonly Wanted[]): string {
  const sentences = [...Map.groupBy(all, targetOf).values()].map((some) => {
    const [first] = some;
    const senders = [...new Set(some.map(({ probe }) => probe.from.name))];
    if (first === undefined || senders.length === 1) {
      return first === undefined ? "" : describeLoss(first);
    }
    return `${listed(senders, MOST_SENDERS)} do not reach ` +
      targetOf(first).replace(/^its /, "their ");
  });
  return listed(sentences, MOST_LOSSES);
}

/** Checks of packets that are lost. */
export const PACKET_CHECKS: readonly Check[] = ([
  {
    code: "CNI0504",
    name: "neighbor-wrong",
    finds: "a static neighbour has a different MAC than the link",
    effect: "Packets in that direction are lost.",
    cause: "It was set by hand, and the container has been restarted since.",
    howToInspect:
      "`ip neigh`, on the node and, with nsenter, in the container.",
    howToFix: "`ip neigh del ADDRESS dev LINK`.",
  },
  {
    code: "CNI0604",
    name: "forward-policy",
    finds: "a forward chain drops the packets of a network",
    effect: "Containers reach only the node itself.",
    cause: "docker, ufw, firewalld or an administrator closed it.",
    howToInspect: "`nft list ruleset`, `iptables -S FORWARD`.",
    howToFix:
      "Run the command of the finding in that program, or add the plugin firewall to the network.",
  },
  {
    code: "CNI0606",
    name: "rule-drops",
    finds: "a firewall rule drops packets of a container",
    effect:
      "Containers of the network cannot reach other hosts, or are unreachable.",
    cause: "A firewall rule, such as a rule that blocks private addresses.",
    howToInspect: "`nft -a list chain FAMILY TABLE CHAIN`, and its counters.",
    howToFix:
      "Delete the rule where it was written; `nft delete rule` lasts until that program's next reload.",
  },
  {
    code: "CNI0610",
    name: "untracked",
    finds: "a notrack rule applies to a masqueraded network",
    effect: "Containers of the network reach nothing outside the node: " +
      "their packets keep their own addresses.",
    cause: "A `notrack` rule, added for speed or because the connection " +
      "table was full, is not limited to the node's own traffic.",
    howToInspect: "`nft -a list ruleset | grep -B9 notrack`.",
    howToFix:
      "Exclude the network's subnet from the rule, where it was written.",
  },
  {
    code: "CNI0611",
    name: "ipsec-blocks",
    finds: "an IPsec policy drops packets of a container",
    effect:
      "Containers of the network cannot reach other hosts, or are unreachable.",
    cause: "A VPN policy against unencrypted packets, or a stale policy " +
      "of a program.",
    howToInspect:
      "`ip xfrm policy`, and `XfrmInPolBlock` and `XfrmOutPolBlock` in " +
      "/proc/net/xfrm_stat.",
    howToFix: "Exclude the network's subnet in the VPN's configuration.",
  },
  {
    code: "CNI0609",
    name: "rule-stops",
    finds: "a routing rule stops packets of a container",
    effect: "The container reaches no host beyond the node.",
    cause: "A rule that prevents VPN leaks, or blocks private addresses.",
    howToInspect: "`ip rule`, `ip -6 rule`.",
    howToFix:
      "`ip rule del pref PRIORITY`, and remove it from the program that added it.",
  },
  {
    code: "CNI0602",
    name: "rp-filter",
    finds: "strict reverse path filtering drops a container's packets",
    effect: "The node drops what that container sends, or the answers.",
    cause: "Strict filtering, and a route to the sender over a different link.",
    howToInspect: "`ip route get ADDRESS`.",
    howToFix: "Remove the route, or set `rp_filter` of the link to 2.",
  },
  {
    code: "CNI0607",
    name: "packet-ends",
    finds:
      "packets of a container are dropped on the node, or leave through a different interface",
    effect: "The container reaches nothing beyond that point.",
    cause:
      "A link is down, a bridge lost its address or a port, a rule or route was added, or forwarding is off for one interface.",
    howToInspect: "`cni doctor --pod NAME` shows which probes arrive.",
    howToFix: "Run the command of the finding.",
  },
] as const).map((check) => ({
  ...check,
  run: (node: NodeReader) => findLosses(node, check.name),
}));

/** Returns the code of a check of packets. */
export function codeOf(check: string): string {
  return PACKET_CHECKS.find(({ name }) => name === check)?.code ?? check;
}
