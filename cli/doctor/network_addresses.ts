/**
 * Addresses that a network gives: leases that are not renewed, and routers that
 * are silent.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { ifPossible } from "../../base/files/io.ts";
import type { Difference } from "../../cni/call/differences.ts";
import { isLearned } from "../../cni/result/learned.ts";
import { findExecutable } from "../../cni/invoke/find.ts";
import { inNetns, NetNs } from "../../ffi/netns.ts";
import { readSysctl } from "../../ffi/sysctl.ts";
import {
  DEFAULT_DHCP_SOCKET,
  findDaemonProblem,
  findDhcpSocket,
  findLeases,
  leaseDirectoryOf,
  type LeaseState,
} from "../../ipam/dhcp/inspect.ts";
import { isUsable } from "../../plugins/parts/address/learned_addresses.ts";
import {
  hadRouter,
  readNetworkInterface,
} from "../../plugins/parts/address/network_interface.ts";
import { nameAttachment } from "../node/live.ts";
import { findAsking, formatIn } from "../node/network_addresses.ts";
import { hasUnit, runsSystemd } from "../node/systemd.ts";
import type { NodeAttachment } from "../node/node_attachments.ts";
import { resultOf } from "../../libcni/cached_result.ts";
import { type NodeReader, oncePerNode } from "../node/node_reader.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  warning,
} from "./finding.ts";

/** A lease of a running container. */
interface HeldLease {
  readonly attachment: NodeAttachment;
  readonly lease: LeaseState;
}

/** The leases of running containers, by their daemon's socket. */
const listLeases: (
  node: NodeReader,
) => Promise<ReadonlyMap<string, readonly HeldLease[]>> = oncePerNode(
  async (node) => {
    const found = new Map<string, HeldLease[]>();
    for (const attachment of node.liveInterfaces) {
      const { document = {} } = findAsking(attachment) ?? {};
      const socket = findDhcpSocket(document);
      if (socket === undefined) continue;
      const own = await findLeases(document, attachment);
      const leases = own.map((lease) => ({ attachment, lease }));
      if (leases.length === 0) continue;
      found.set(socket, [...found.get(socket) ?? [], ...leases]);
    }
    return found;
  },
);

/** Finds leases that expire, because nothing renews them. */
async function findNotRenewed(node: NodeReader): Promise<Findings> {
  const findings: Finding[] = [];
  for (const [socket, held] of await listLeases(node)) {
    const problem = await findDaemonProblem(socket, node.signal);
    findings.push(
      ...problem === undefined
        ? held.flatMap((lease) => describeLease(node, lease))
        : [describeWithoutDaemon(node, { socket, problem, held })],
    );
  }
  return findings;
}

/** The unit of the daemon, in deploy/dhcp. */
const UNIT = "cni-dhcp.service";

function describeWithoutDaemon(
  { directories: { pluginDirs } }: NodeReader,
  { socket, problem, held }: {
    readonly socket: string;
    readonly problem: string;
    readonly held: readonly HeldLease[];
  },
): Finding {
  const [first] = held.toSorted((left, right) =>
    left.lease.leftSeconds - right.lease.leftSeconds
  );
  const what = held.length === 1
    ? "the DHCP lease"
    : `the ${held.length} DHCP leases`;
  const soonest = first === undefined ? "" : ` ${first.lease.address} of ` +
    `${nameAttachment(first.attachment)} expires ${
      formatIn(first.lease.leftSeconds)
    }`;
  // The unit listens at the default socket.
  const isUnit = socket === DEFAULT_DHCP_SOCKET && runsSystemd() &&
    hasUnit(UNIT);
  const plugin = ifPossible(() => findExecutable("dhcp", pluginDirs));
  const start = plugin &&
    shell`setsid -f ${plugin} daemon -socketpath ${socket}` +
      " </dev/null >/dev/null 2>&1";
  const command = isUnit ? `systemctl restart ${UNIT}` : start;
  return error(
    `no daemon renews ${what} in "${leaseDirectoryOf(socket)}":${soonest}; ` +
      problem,
    "the server gives the address to another machine once the lease expires",
    {
      ...command && { command },
      advice: "if the node daemon kept the leases, start it again with " +
        shell`--dhcp-socket ${socket} instead`,
      look: shell`ls -l ${socket}`,
    },
  );
}

function describeLease(
  node: NodeReader,
  { attachment, lease }: HeldLease,
): Finding[] {
  const { address, family, isLost, isRebinding, leftSeconds } = lease;
  const { containerId, ifName } = attachment;
  const subject = nameAttachment(attachment);
  const more = {
    advice: "start the DHCP server of the network again, or restore the " +
      "connection to it; the daemon asks again by itself, by default about once a minute",
    look: node.cni("netns exec", ["cache-dir"]) +
      shell` ${containerId} tcpdump -ni ${ifName} udp` +
      (family === 6 ? " port 547" : " port 67"),
    subject,
  };
  if (isLost) {
    return [error(
      `${subject} has lost its DHCP lease of ${address}, and no server ` +
        "grants one",
      "the container does not have the address",
      more,
    )];
  }
  return isRebinding
    ? [warning(
      `no DHCP server renews the lease of ${address} of ${subject}, which ` +
        `expires ${formatIn(leftSeconds)}`,
      "the container loses the address then",
      more,
    )]
    : [];
}

/** Settings of an interface without which the kernel ignores routers. Source: Documentation/networking/ip-sysctl.rst. */
const SETTINGS = [
  ["disable_ipv6", "0"],
  ["accept_ra", "2"],
  ["accept_ra_pinfo", "1"],
  ["autoconf", "1"],
] as const;

/** Finds interfaces without the addresses of a router, or that lose them. */
const listWithoutRouter: (node: NodeReader) => readonly Finding[] = oncePerNode(
  (node) =>
    node.liveInterfaces.flatMap((attachment) =>
      ifPossible(() => describeRouters(node, attachment)) ?? []
    ),
);

function describeRouters(
  node: NodeReader,
  attachment: NodeAttachment,
): Finding[] {
  const result = resultOf(attachment);
  const conf = findAsking(attachment);
  const isDerived = conf !== undefined && result?.ips.some(isLearned) &&
    findDhcpSocket(conf.document) === undefined;
  if (!isDerived || result === undefined) return [];
  const { netns, ifName, containerId } = attachment;
  const subject = nameAttachment(attachment);
  const ignored = findIgnoring(attachment);
  if (ignored !== undefined) {
    const [key, wanted, value] = ignored;
    return [error(
      `${subject} ignores router advertisements: ${key} is ${value}`,
      "its addresses expire, and it gets no others",
      {
        command:
          shell`nsenter --net=${netns} sysctl -w ${`net/ipv6/conf/${ifName}/${key}=${wanted}`}`,
        subject,
      },
    )];
  }
  const found = readNetworkInterface(
    attachment,
    result,
    ({ given, listRouters }) => ({
      usable: given.filter(isUsable),
      isLost: hadRouter(result) && listRouters().length === 0,
    }),
  );
  if (found === undefined) return [];
  const { usable, isLost } = found;
  const more = {
    advice: "have a router of the network advertise its prefix again, or put " +
      "the interface into the router's network or VLAN",
    look: node.cni("netns exec", ["cache-dir"]) +
      shell` ${containerId} tcpdump -ni ${ifName} icmp6`,
    subject,
  };
  if (usable.length === 0) {
    return [error(
      `${subject} has no address: the last one has expired, because no router ` +
        `advertisement reaches "${ifName}"`,
      "the container has no connection to that network",
      more,
    )];
  }
  const isOld = usable.every(({ isDeprecated }) => isDeprecated);
  if (!isOld && !isLost) return [];
  const valid = Math.max(...usable.map(({ lifetime }) => lifetime?.valid ?? 0));
  return [warning(
    `no router advertisement reaches ${subject}: ` + [
      ...isLost ? ["it no longer has a default route"] : [],
      ...isOld ? [`its last address expires ${formatIn(valid)}`] : [],
    ].join(", and "),
    "the container loses its addresses and routes",
    more,
  )];
}

/** Finds a setting by which an interface ignores routers. */
function findIgnoring(
  { netns, ifName }: NodeAttachment,
): readonly [key: string, wanted: string, value: string] | undefined {
  using namespace = NetNs.open(netns);
  return inNetns(namespace, () => {
    const read = (key: string): string =>
      readSysctl(`net/ipv6/conf/${ifName}/${key}`).trim();
    const isRouter = read("forwarding") !== "0";
    for (const [key, wanted] of SETTINGS) {
      const value = read(key);
      const isFine = value === wanted ||
        key === "accept_ra" && value === "1" && !isRouter;
      if (!isFine) return [key, wanted, value] as const;
    }
    return undefined;
  });
}

/** Messages of CHECK about addresses from the network and about a missing daemon. */
const CHECKED = /(^|: )(dhcp|slaac): "|No DHCP daemon listens/;

/**
 * Returns a test for differences of attachments that these checks report, with
 * another fix.
 */
export async function findReported(
  node: NodeReader,
): Promise<(attachment: NodeAttachment, difference: Difference) => boolean> {
  const held = [...(await listLeases(node)).values()].flat();
  const withoutRouter = new Set(
    listWithoutRouter(node).map(({ subject }) => subject),
  );
  const isOf = (attachment: NodeAttachment) =>
  (
    one: NodeAttachment,
  ): boolean =>
    one.containerId === attachment.containerId &&
    one.netns === attachment.netns;
  return (attachment, { msg, expected }) => {
    const own = held.filter((one) => isOf(attachment)(one.attachment));
    // REPAIR would put back an address without a lease.
    const isInside = expected?.netns === attachment.netns;
    if (isInside && own.some(({ lease }) => lease.isLost)) return true;
    if (!CHECKED.test(msg)) return false;
    return own.length > 0 ||
      node.liveInterfaces.filter(isOf(attachment)).map(nameAttachment)
        .some((name) => withoutRouter.has(name));
  };
}

/** Checks of addresses that networks give. */
export const NETWORK_ADDRESS_CHECKS: readonly Check[] = [
  {
    code: "CNI0514",
    name: "lease-not-renewed",
    finds: "a container's DHCP lease is no longer renewed, or is lost",
    effect:
      "The container loses its address when the lease ends, and the server gives the address to another machine.",
    cause:
      "The DHCP daemon of the node is not running, the server does not answer, or the container's interface does not reach it.",
    howToInspect:
      "`cni show`, `journalctl -u cni-dhcp`, and `tcpdump` in the container.",
    howToFix:
      "Start [the daemon](dhcp.md#start-the-daemon), or the server. The daemon then renews the leases by itself.",
    run: findNotRenewed,
  },
  {
    code: "CNI0515",
    name: "no-advertisement",
    finds: "a container with slaac no longer receives router advertisements",
    effect: "Its addresses and routes expire.",
    cause:
      "The router is down or no longer advertises a prefix, the interface is in a different network or VLAN, or a sysctl makes the container ignore routers.",
    howToInspect: "`cni show`, and `tcpdump -i eth0 icmp6` in the container.",
    howToFix:
      "Have the router advertise its prefix again; set the sysctl that the finding names.",
    run: listWithoutRouter,
  },
];
