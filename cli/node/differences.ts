/**
 * What CHECK finds in the attachments of this node.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import type { Difference } from "../../cni/call/differences.ts";
import { listDifferences } from "../../cni/call/list_differences.ts";
import { ifPossible } from "../../base/files/io.ts";
import { toCniError } from "../../base/error.ts";
import {
  CheckNotSupportedError,
  type NetworkRuntime,
  type RuntimeConf,
} from "../../libcni/mod.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";
import { isMissingNetns } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import {
  hadInterface,
  isCovered,
  type NodeAttachment,
} from "./node_attachments.ts";
import { isFalseAlarm } from "./false_alarms.ts";
import { listHeldLocks } from "./held_locks.ts";
import { findMissing, findOwnPlugin } from "./plugin_file.ts";
import { type NodeReader, typesOf } from "./node_reader.ts";
import { typesWithIpam } from "../../cni/config/ipam.ts";
import { parseCachedConfig } from "../../libcni/conf.ts";

/** A difference that CHECK of a plugin found. */
export interface PluginDifference extends Difference {
  /** The type of the plugin. */
  readonly plugin: string;
  /** The code of the plugin's error. */
  readonly code: number;
}

type CheckedList = Parameters<NetworkRuntime["checkNetworkList"]>[0];

/**
 * Runs CHECK of one plugin after the other, and lists the differences.
 *
 * @throws {CheckNotSupportedError} If the version of the list has no CHECK
 * @throws {unknown} The reason of the signal, once it is aborted
 */
export async function checkPlugins(
  runtime: NetworkRuntime,
  list: CheckedList,
  conf: RuntimeConf,
  signal: AbortSignal,
): Promise<PluginDifference[]> {
  const differences: PluginDifference[] = [];
  for (const plugin of list.plugins) {
    try {
      const alone = { ...list, plugins: [plugin] };
      await runtime.checkNetworkList(alone, conf, { signal });
    } catch (error) {
      // A missing check is not a difference.
      if (signal.aborted || error instanceof CheckNotSupportedError) {
        throw error;
      }
      const { code } = toCniError(error);
      differences.push(
        ...listDifferences(error)
          .map((one) => ({ plugin: plugin.type, code, ...one })),
      );
    }
  }
  return differences;
}

const DIFFERENCES = new WeakMap<NodeAttachment, Promise<PluginDifference[]>>();

/**
 * Returns what CHECK of each plugin finds, and remembers it. CHECK of multus
 * finds what differs in the networks that it attached.
 */
export async function findDifferences(
  node: NodeReader,
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
  const differences = DIFFERENCES.get(attachment) ??
    check(node, attachment);
  DIFFERENCES.set(attachment, differences);
  return await differences;
}

/**
 * Explains how to restore what CHECK finds missing: by REPAIR of the plugin, which
 * changes nothing else, or by another ADD.
 */
export async function adviseRepair(
  node: NodeReader,
  attachment: NodeAttachment,
  { plugin: type, expected }: PluginDifference,
): Promise<{ readonly command?: string; readonly advice: string }> {
  const { pod, containerId, netns } = attachment;
  const isMac = expected?.kind === "link" && expected.mac !== undefined;
  const plugin = await findOwnPlugin(type, node.directories.pluginDirs);
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
      advice: `remove the address from the other host; then ${restart}`,
    };
  }
  if (isMac || !hasRepair || hasLostInterface(attachment)) {
    return { advice: `only a new ADD sets it up again: ${restart}` };
  }
  return {
    command: node.cni(
      shell`repair ${pod ?? containerId}` + (isInside ? " --sandbox" : ""),
    ),
    advice: `if something is still missing, ${restart}`,
  };
}

/** Reports whether the interface that ADD made was deleted. */
function hasLostInterface(attachment: NodeAttachment): boolean {
  if (!hadInterface(attachment)) return false;
  using sandbox = Rtnl.open(attachment.netns);
  return sandbox.link.find(attachment.ifName) === undefined;
}

/** Reports whether another host has an IPv6 address of a container. */
function hasDuplicate(netns: string): boolean {
  using sandbox = Rtnl.open(netns);
  return sandbox.address.list({ family: 6 })
    .some(({ hasDadFailed }) => hasDadFailed);
}

/**
 * Returns a test for types of plugins whose CHECK inspects the container. Other
 * checks report the rest: files that do not work, and missing plugins that a
 * network of the node needs.
 */
async function findStartable(
  node: NodeReader,
): Promise<(type: string) => boolean> {
  const works = await node.findUsable();
  const { pluginDirs } = node.directories;
  const reported = node.networks.flatMap(typesOf);
  return (type) =>
    findMissing(type, pluginDirs) === undefined
      ? works(type)
      : !reported.includes(type);
}

/** Lists the attachments that CHECK applies to. multus checks its own. */
export function listChecked(node: NodeReader): NodeAttachment[] {
  return node.liveAttachments.filter((one) =>
    one.via === undefined && !isCovered(one, node.attachments)
  );
}

/** Runs CHECK of each plugin that can be started. */
async function check(
  node: NodeReader,
  attachment: NodeAttachment,
): Promise<PluginDifference[]> {
  const { runtime, signal } = node;
  const { network, config } = attachment;
  const list = ifPossible(() => parseCachedConfig(config));
  if (list === undefined) return [];
  const { containerId, ifName, netns, cniArgs, capabilityArgs } = attachment;
  if (!canOpen(netns)) return [];
  const conf = { containerId, ifName, netns, args: cniArgs, capabilityArgs };
  const isUsable = await findStartable(node);
  const plugins = list.plugins.filter((plugin) =>
    typesWithIpam([plugin]).every(isUsable)
  );
  const startable = { ...list, name: network, plugins };
  try {
    const differences = await checkPlugins(runtime, startable, conf, signal);
    return differences.filter((one) => !isFalseAlarm(node, attachment, one));
  } catch (error) {
    if (!signal.aborted && error instanceof CheckNotSupportedError) return [];
    throw error;
  }
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
