/**
 * The attachments in the cache, and what the kernel has of them.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { join } from "@std/path/posix";
import type { Difference } from "../../cni/call/differences.ts";
import { listDifferences } from "../../cni/call/list_differences.ts";
import { ifPossible, readTextFile } from "../../base/files/io.ts";
import {
  CheckNotSupportedError,
  type Network,
  parseNetworkConf,
  parseNetworkConfList,
} from "../../libcni/mod.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";
import { isMissingNetns } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { FORWARDING } from "../../plugins/parts/address/ip_forward.ts";
import {
  isCovered,
  type NodeAttachment,
} from "../attachments/node_attachments.ts";
import { isFalseAlarm } from "./false_alarms.ts";
import { findMissing, findOwnPlugin } from "../plugins/plugin_file.ts";
import { listNotForwarded } from "./sysctls.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  warning,
} from "./finding.ts";
import { listLive, nameAttachment } from "./live.ts";
import { ipamTypeOf, type Node, typesOf } from "./node.ts";
import { listHeldLocks } from "./storage.ts";
import { listUplinks } from "./subnets.ts";

/** Finds files of the cache that nobody can read. */
function findBroken(node: Node): Findings {
  const directory = join(node.directories.cacheDir, "results");
  const names = ifPossible(() => [...Deno.readDirSync(directory)]) ?? [];
  const known = new Set(node.attachments.map(({ path }) => path));
  return names.filter((one) => !one.isDirectory).flatMap(({ name, isFile }) => {
    const path = join(directory, name);
    // Files that are being replaced have other names, and come and go.
    if (known.has(path) || name.startsWith(".")) return [];
    if (!isFile) {
      return [
        warning(
          `"${path}" is not a file`,
          "DEL runs without the configuration of ADD, and may leave something",
          { command: shell`rm ${path}` },
        ),
      ];
    }
    const size = ifPossible(() => Deno.statSync(path).size);
    if (size === undefined || isOldFormat(path)) return [];
    const fix = {
      did: `removed the empty file "${path}"`,
      run: () => Deno.removeSync(path),
    };
    return [
      warning(
        `"${path}" is ${
          size === 0 ? "empty" : "not readable as an attachment"
        }`,
        size === 0
          ? "it counts as missing, as after a power loss"
          : "DEL runs without the configuration of ADD, and may leave something",
        { command: shell`rm ${path}`, ...size === 0 && { fix } },
      ),
    ];
  });
}

/** Reports whether a file has only a result, as libcni before 0.8 cached it. */
function isOldFormat(path: string): boolean {
  const document = ifPossible(() => JSON.parse(readTextFile(path)));
  return typeof document === "object" && document !== null &&
    document.kind === undefined &&
    (document.cniVersion !== undefined || document.ips !== undefined);
}

/** Runs CHECK for each attachment, except of plugins that cannot be started. */
async function findChanged(node: Node): Promise<Findings> {
  const findings: Finding[] = [];
  // Reported once, by ip-forward.
  const known = [...listNotForwarded(node).keys()]
    .map((family) => FORWARDING[family]);
  for (const attachment of listChecked(node)) {
    const subject = nameAttachment(attachment);
    const differences = (await findDifferences(node, attachment))
      .filter(({ expected }) =>
        expected?.kind !== "sysctl" || !known.includes(expected.key)
      );
    for (const difference of differences) {
      const { plugin, msg } = difference;
      findings.push(error(
        `${subject} on "${attachment.network}": ${plugin}: ${msg}`,
        "the container's network does not work as it was set up",
        {
          ...await adviseRepair(node, attachment, difference),
          look: shell`cni doctor --pod ${
            attachment.pod ?? attachment.containerId
          }`,
          subject,
        },
      ));
    }
  }
  return findings;
}

/** A difference, and the plugin that found it. */
export interface PluginDifference extends Difference {
  /** Its type. */
  readonly plugin: string;
}

const DIFFERENCES = new WeakMap<NodeAttachment, Promise<PluginDifference[]>>();

/**
 * Returns what CHECK of each plugin finds, and remembers it. CHECK of multus
 * finds what differs in the networks that it attached.
 */
export async function findDifferences(
  node: Node,
  one: NodeAttachment,
): Promise<PluginDifference[]> {
  const attachment = one.via === undefined
    ? one
    : listChecked(node).find(({ containerId }) =>
      containerId === one.containerId
    );
  if (attachment === undefined) return [];
  // CHECK would wait for the lock.
  const isHeld = (await listHeldLocks(node))
    .some(({ network }) => network === attachment.network);
  if (isHeld) return [];
  const found = DIFFERENCES.get(attachment) ??
    check(node, attachment);
  DIFFERENCES.set(attachment, found);
  return await found;
}

/**
 * Explains how to restore what CHECK finds missing: by REPAIR of the plugin, which
 * changes nothing else, or by another ADD.
 */
export async function adviseRepair(
  { directories: { pluginDirs } }: Node,
  { pod, containerId, netns }: NodeAttachment,
  { plugin: type, expected }: PluginDifference,
): Promise<Pick<Finding, "command" | "advice">> {
  const isMac = expected?.kind === "link" && expected.mac !== undefined;
  const plugin = await findOwnPlugin(type, pluginDirs);
  // The plugins of a chain and the networks of multus are repaired one by one.
  const hasRepair = plugin?.repair !== undefined ||
    METADATA.get(type)?.runs !== undefined;
  const restart = pod === undefined
    ? "restart the container"
    : "restart the pod, for instance by " +
      shell`kubectl -n ${pod.split("/")[0]} delete pod ${pod.split("/")[1]}`;
  const isInside = expected?.netns === netns;
  // The kernel adds no route that needs the address.
  if ((isInside || expected === undefined) && hasDuplicate(netns)) {
    return {
      advice: `take the address from the other host; then ${restart}`,
    };
  }
  if (isMac || !hasRepair) {
    return { advice: `only another ADD sets it up again: ${restart}` };
  }
  return {
    command: shell`cni repair ${pod ?? containerId}` +
      (isInside ? " --sandbox" : ""),
    advice: `if something stays missing, ${restart}`,
  };
}

/** Reports whether another host has an IPv6 address of a container. */
function hasDuplicate(netns: string): boolean {
  using sandbox = Rtnl.open(netns);
  return sandbox.address.list({ family: 6 })
    .some(({ hasDadFailed }) => hasDadFailed);
}

/**
 * Returns a test for types of plugins whose CHECK looks at the container. Other
 * checks report the rest: files that do not work, and missing plugins that a
 * network of the node needs.
 */
async function findStartable(node: Node): Promise<(type: string) => boolean> {
  const works = await node.findUsable();
  const { pluginDirs } = node.directories;
  const reported = node.networks.flatMap(typesOf);
  return (type) =>
    findMissing(type, pluginDirs) === undefined
      ? works(type)
      : !reported.includes(type);
}

/** Lists the attachments that CHECK applies to. multus checks its own. */
export function listChecked(node: Node): NodeAttachment[] {
  return node.liveAttachments.filter((one) =>
    one.via === undefined && !isCovered(one, node.attachments)
  );
}

/** Runs CHECK of each plugin that can be started. */
async function check(
  node: Node,
  attachment: NodeAttachment,
): Promise<PluginDifference[]> {
  const { runtime, signal } = node;
  const { network, config } = attachment;
  const list = ifPossible(() => parseCached(config));
  if (list === undefined) return [];
  const { containerId, ifName, netns, cniArgs, capabilityArgs } = attachment;
  if (!canOpen(netns)) return [];
  const conf = { containerId, ifName, netns, args: cniArgs, capabilityArgs };
  const found: PluginDifference[] = [];
  const isUsable = await findStartable(node);
  for (const plugin of list.plugins) {
    if (![plugin.type, ipamTypeOf(plugin) ?? plugin.type].every(isUsable)) {
      continue;
    }
    try {
      const alone = { ...list, name: network, plugins: [plugin] };
      await runtime.checkNetworkList(alone, conf, { signal });
    } catch (error) {
      if (error instanceof CheckNotSupportedError) return [];
      if (signal.aborted) throw error;
      found.push(
        ...listDifferences(error)
          .map((one) => ({ ...one, plugin: plugin.type })),
      );
    }
  }
  return found.filter((one) => !isFalseAlarm(node, attachment, one));
}

/**
 * Reports whether a namespace still exists.
 *
 * @throws {SyscallError} EPERM, because that is not a difference
 */
function canOpen(path: string): boolean {
  try {
    using _sandbox = Rtnl.open(path);
    return true;
  } catch (error) {
    if (isMissingNetns(error)) return false;
    throw error;
  }
}

/** Parses the configuration with which an attachment was made. */
export function parseCached(
  bytes: Uint8Array,
): Network & { readonly disableCheck?: boolean } {
  const list = parseNetworkConfList(bytes);
  if (list.plugins.length > 0) return list;
  const { name, cniVersion, plugin } = parseNetworkConf(bytes);
  return { name, cniVersion, plugins: [plugin], bytes };
}

/** The least MTU with IPv6. Source: RFC 8200, section 5. */
const LEAST_MTU_IPV6 = 1280;

/** Finds links that drop packets which others send. */
function findMtu(node: Node): Findings {
  const [uplink] = listUplinks(node)
    .sort((left, right) => left.mtu - right.mtu);
  return listLive(node).flatMap(({ attachment, link, hostEnd, ...live }) => {
    if (link === undefined) return [];
    const { name, mtu } = link;
    const findings: Finding[] = [];
    const set = shell`nsenter --net=${live.cached.netns} ip link set ${name}`;
    if (hostEnd !== undefined && hostEnd.mtu !== mtu) {
      findings.push(error(
        `the MTU of ${attachment} is ${mtu}, and that of "${hostEnd.name}", ` +
          `its other end, ${hostEnd.mtu}`,
        `packets of more than ${Math.min(mtu, hostEnd.mtu)} bytes are lost`,
        { command: `${set} mtu ${hostEnd.mtu}` },
      ));
    }
    const hasIpv6 = live.addresses.some(({ family }) => family === 6);
    if (hasIpv6 && mtu < LEAST_MTU_IPV6) {
      findings.push(error(
        `the MTU of ${attachment} is ${mtu}, and IPv6 needs ${LEAST_MTU_IPV6}`,
        "the kernel removes its IPv6 addresses",
        { command: `${set} mtu ${uplink?.mtu ?? 1500}` },
      ));
    }
    if (live.isRouted && uplink !== undefined && mtu > uplink.mtu) {
      findings.push(warning(
        `the MTU of ${attachment} is ${mtu}, and that of the uplink ` +
          `"${uplink.name}" only ${uplink.mtu}`,
        "large packets are cut up or lost on their way out",
        {
          command: `${set} mtu ${uplink.mtu}` +
            (hostEnd === undefined
              ? ""
              : shell`; ip link set ${hostEnd.name} mtu ${uplink.mtu}`),
          advice: `and "mtu": ${uplink.mtu} in "${live.cached.network}"`,
        },
      ));
    }
    return findings;
  });
}

/** Checks of attachments. */
export const ATTACHMENT_CHECKS: readonly Check[] = [
  {
    code: "CNI0701",
    name: "cache-broken",
    finds: "a file of the attachment cache cannot be read",
    effect:
      "DEL runs without the configuration of ADD, and might leave something behind.",
    cause: "A power loss, a full disk, or a file of another program.",
    look: "`ls -l` of the file.",
    fix: "Remove it; `cni doctor --fix` removes empty files.",
    run: findBroken,
  },
  {
    code: "CNI0702",
    name: "attachment-changed",
    finds: "CHECK of an attachment finds a difference",
    effect: "The container's network does not work as it was set up.",
    cause: "Links, routes, rules or leases were changed after ADD.",
    look: "`cni doctor --pod NAME` shows the path of its packets.",
    fix:
      "`cni repair NAME`, with `--sandbox` for what is inside the container; restart the pod if something stays missing.",
    run: findChanged,
  },
  {
    code: "CNI0703",
    name: "mtu",
    finds: "a container's MTU does not match its other end, IPv6 or the uplink",
    effect: "Large packets are lost, or IPv6 addresses disappear.",
    cause:
      "One end was set by hand, or the uplink's is smaller, as with tunnels.",
    look: "`ip link show`, in the container and on the node.",
    fix: "`ip link set LINK mtu N`, and `mtu` in the configuration.",
    run: findMtu,
  },
];
