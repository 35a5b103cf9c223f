/**
 * Repairs attachments of the node: the engine of `cni repair` and of the node daemon.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import { ifPossible } from "../../base/files/io.ts";
import { decodeResult } from "../../cni/result/decoding.ts";
import { isMissingNetns } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import {
  CheckNotSupportedError,
  type NetworkRuntime,
  type PluginRepair,
  type RepairOptions,
  type RuntimeConf,
} from "../../libcni/mod.ts";
import { parseCached } from "../doctor/attachments.ts";
import type { NodeAttachment } from "../attachments/node_attachments.ts";
import { CHAIN, unfoldChains } from "../networks/chain_form.ts";

/** What became of an attachment. */
export interface AttachmentRepair {
  readonly attachment: NodeAttachment;
  /** What each plugin did; empty if none was asked. */
  readonly plugins: readonly PluginRepair[];
  /** Why none was asked, if that is a failure. */
  readonly error?: string;
}

/** How attachments are repaired. */
export interface NodeRepair extends RepairOptions {
  /** Creates the runtime whose cache is in a directory. */
  readonly createRuntime: (cacheDir: string) => NetworkRuntime;
  /**
   * Repairs an attachment by calling `repair`, or not at all: undefined then. By
   * default it is called.
   */
  readonly around?: (
    attachment: NodeAttachment,
    repair: () => Promise<AttachmentRepair>,
  ) => Promise<AttachmentRepair | undefined>;
}

/**
 * How many containers are repaired at the same time, as the daemon runs calls:
 * those that wait for iptables share its next run.
 */
const AT_ONCE = 64;

/**
 * Plugins that only run others: the plugins of a chain are asked themselves, and the
 * networks of multus are attachments of their own.
 */
const RUNNERS = [CHAIN, "multus", "multus-shim"];

/** Repairs attachments; those of a container run one after the other. */
export async function repairAttachments(
  attachments: readonly NodeAttachment[],
  options: NodeRepair,
): Promise<AttachmentRepair[]> {
  const { createRuntime, around = (_, repair) => repair() } = options;
  const containers = [
    ...Map.groupBy(attachments, ({ containerId }) => containerId).values(),
  ];
  const done = new Map<NodeAttachment, AttachmentRepair>();
  const runtimes = new Map<string, NetworkRuntime>();
  const runtimeOf = ({ cacheDir }: NodeAttachment): NetworkRuntime => {
    const runtime = runtimes.get(cacheDir) ?? createRuntime(cacheDir);
    runtimes.set(cacheDir, runtime);
    return runtime;
  };
  const work = async (): Promise<void> => {
    for (let own = containers.shift(); own; own = containers.shift()) {
      for (const one of own) {
        options.signal?.throwIfAborted();
        const repair = await around(
          one,
          () => repairAttachment(one, runtimeOf(one), options),
        );
        if (repair !== undefined) done.set(one, repair);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return attachments.flatMap((one) => done.get(one) ?? []);
}

async function repairAttachment(
  attachment: NodeAttachment,
  runtime: NetworkRuntime,
  options: RepairOptions,
): Promise<AttachmentRepair> {
  const { network, config, containerId, netns, ifName } = attachment;
  try {
    const lost = findLostInterface(attachment);
    if (lost !== undefined) return { attachment, plugins: [], error: lost };
    const list = parseCached(config);
    const plugins = unfoldChains(list.plugins)
      .filter(({ type }) => !RUNNERS.includes(type));
    if (plugins.length === 0) return { attachment, plugins: [] };
    const { cniArgs: args, capabilityArgs } = attachment;
    const conf = { containerId, netns, ifName, args, capabilityArgs };
    const own = { ...list, name: network, plugins };
    const repairs = await runtime.repairNetworkList(own, conf, options);
    const hasChanged = repairs.some(({ repaired }) => repaired.length > 0);
    if (hasChanged && isDeleted(runtime, attachment, conf)) {
      // A DEL came in between, and may have found nothing of it.
      await runtime.delNetworkList(own, conf, { signal: options.signal });
      return { attachment, plugins: [] };
    }
    return { attachment, plugins: repairs };
  } catch (error) {
    options.signal?.throwIfAborted();
    // Without CHECK, nothing shows what is missing.
    return error instanceof CheckNotSupportedError
      ? { attachment, plugins: [] }
      : { attachment, plugins: [], error: describeError(error) };
  }
}

function isDeleted(
  runtime: NetworkRuntime,
  { network }: NodeAttachment,
  conf: RuntimeConf,
): boolean {
  return runtime.findCachedConfig({ name: network }, conf) === undefined;
}

/** Says that the interface is gone if ADD made one: only another ADD makes it again. */
function findLostInterface(
  { netns, ifName, result }: NodeAttachment,
): string | undefined {
  const wasMade = ifPossible(() => decodeResult(result ?? {}))?.interfaces
    .some(({ name, sandbox }) => sandbox && name === ifName) ?? false;
  if (!wasMade) return undefined;
  try {
    using sandbox = Rtnl.open(netns);
    return sandbox.link.find(ifName) === undefined
      ? `Interface "${ifName}" is gone: only restarting the container helps`
      : undefined;
  } catch (error) {
    if (isMissingNetns(error)) return `"${netns}" is gone`;
    throw error;
  }
}
