/**
 * Repairs attachments of the node: the engine of `cni repair` and of the node daemon.
 *
 * @module
 */

import { JoinedSignal, pause } from "../../base/deadline.ts";
import { describeError } from "../../base/error.ts";
import { findFileId } from "../../base/files/same_file.ts";
import { isMissingNetns } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import {
  CheckNotSupportedError,
  type NetworkRuntime,
  type PluginRepair,
  type RepairOptions,
  type RuntimeConf,
} from "../../libcni/mod.ts";
import { isOfAnotherResult } from "../../plugins/parts/sandbox/prev_result.ts";
import { listRunningPlugins } from "../../plugins/parts/evidence/processes.ts";
import { parseCachedConfig } from "../../libcni/conf.ts";
import { resultOf } from "../../libcni/cached_result.ts";
import { hadInterface, type NodeAttachment } from "../node/node_attachments.ts";
import { unfoldChains } from "../node/chain_form.ts";
import { typeHas } from "../../plugins/parts/traits.ts";
import { RepairQueue } from "./repair_queue.ts";

/** What became of an attachment. */
export interface AttachmentRepair {
  readonly attachment: NodeAttachment;
  /** The result of each plugin; empty if no plugin ran. */
  readonly plugins: readonly PluginRepair[];
  /** Why no plugin ran, or not all plugins, if that is a failure. */
  readonly error?: string;
}

/** What became of attachments. */
export interface NodeRepairs {
  /** Those that were reached. */
  readonly repairs: readonly AttachmentRepair[];
  /** Why not all were reached or finished, if something ended the repairs. */
  readonly failure?: unknown;
}

/** How attachments are repaired. */
export interface NodeRepair extends RepairOptions {
  /** Creates the runtime for a cache directory. */
  readonly createRuntime: (cacheDir: string) => NetworkRuntime;
  /** Path of the host's namespace, in which plugins run. */
  readonly hostNetns: string;
  /** See {@linkcode RepairQueue}; if undefined, each attachment is repaired once. */
  readonly takeLoss?: () => number;
  /** Reports whether DEL of an attachment is under way: it is not repaired then. */
  readonly isDeleted?: (attachment: NodeAttachment) => boolean;
  /**
   * Works on an attachment by calling `work`, or not at all: undefined then. By
   * default it is called.
   */
  readonly around?: (
    attachment: NodeAttachment,
    work: () => Promise<AttachmentRepair>,
  ) => Promise<AttachmentRepair | undefined>;
}

/** The longest wait for DELs that are under way, in ms. */
const MOST_DEL_MS = 10_000;
/** A runtime calls the next plugin of a DEL within this time, in ms. */
const BETWEEN_PLUGINS_MS = 500;
/** How often plugins that run DEL are looked for, in ms. */
const LOOK_MS = 100;
/** Time limit for the DELs of all attachments deleted during the repair, in ms. */
const DEL_DELETED_MS = 10_000;

/**
 * Repairs attachments; those of a container run one after the other. If something was
 * repaired, it then waits until no plugin runs DEL of it, to look for attachments that
 * were deleted meanwhile. It does so even if the signal ends the repairs, and reports
 * what was repaired until then.
 */
export async function repairAttachments(
  attachments: readonly NodeAttachment[],
  options: NodeRepair,
): Promise<NodeRepairs> {
  const { createRuntime, around = (_, repair) => repair(), signal } = options;
  const queue = new RepairQueue(
    Map.groupBy(attachments, ({ containerId }) => containerId).values(),
    options.takeLoss,
  );
  const done = new Map<NodeAttachment, AttachmentRepair>();
  // What their last plugin has repaired is unknown.
  const interrupted = new Set<NodeAttachment>();
  const runtimes = new Map<string, NetworkRuntime>();
  const runtimeOf = ({ cacheDir }: NodeAttachment): NetworkRuntime => {
    const runtime = runtimes.get(cacheDir) ?? createRuntime(cacheDir);
    runtimes.set(cacheDir, runtime);
    return runtime;
  };
  const repairContainer = async (
    own: readonly NodeAttachment[],
  ): Promise<void> => {
    for (const one of own) {
      signal?.throwIfAborted();
      if (options.isDeleted?.(one)) continue;
      const repair = await around(one, async () => {
        const repair = await repairAttachment(one, runtimeOf(one), options);
        if (signal?.aborted) interrupted.add(one);
        return repair;
      });
      if (repair !== undefined) done.set(one, join(done.get(one), repair));
    }
  };
  const listChanged = (): Set<NodeAttachment> =>
    new Set(
      [...done.values()].filter(({ plugins }) =>
        plugins.some(({ repaired }) => repaired.length > 0)
      ).map(({ attachment }) => attachment),
    ).union(interrupted);
  let failure = await queue.run(repairContainer);
  if (!options.dryRun) {
    const { hostNetns } = options;
    const isAnyWaiting = (): boolean => failure === undefined && queue.refill();
    while (!await waitForDels(listChanged(), hostNetns, isAnyWaiting)) {
      failure = await queue.run(repairContainer);
    }
    await undoDeleted(done, listChanged(), { around, runtimeOf });
  }
  const repairs = attachments.flatMap((one) => done.get(one) ?? []);
  if (failure !== undefined) return { repairs, failure };
  return interrupted.size > 0
    ? { repairs, failure: signal?.reason }
    : { repairs };
}

/** Joins what became of an attachment that was repaired again. */
function join(
  before: AttachmentRepair | undefined,
  after: AttachmentRepair,
): AttachmentRepair {
  if (before === undefined) return after;
  // The second repair might have ended earlier.
  const unreached = before.plugins.slice(after.plugins.length);
  const plugins = [...after.plugins, ...unreached].map((plugin, index) => {
    const repaired = new Set(before.plugins[index]?.repaired)
      .union(new Set(plugin.repaired));
    return { ...plugin, repaired: [...repaired] };
  });
  return { ...after, plugins };
}

/**
 * Looks again at what was repaired, and runs DEL of attachments that are deleted: that
 * DEL may have passed a plugin before its repair. A runtime clears its cache after the
 * last DEL, and other runtimes than this project's take no lock.
 */
async function undoDeleted(
  done: Map<NodeAttachment, AttachmentRepair>,
  changed: ReadonlySet<NodeAttachment>,
  { around, runtimeOf }: Pick<Required<NodeRepair>, "around"> & {
    readonly runtimeOf: (attachment: NodeAttachment) => NetworkRuntime;
  },
): Promise<void> {
  using limit = new JoinedSignal(DEL_DELETED_MS);
  const { signal } = limit;
  for (const attachment of changed) {
    if (signal.aborted) return;
    const runtime = runtimeOf(attachment);
    const undone = await around(attachment, async () => {
      const gone = { attachment, plugins: [] };
      try {
        const { list, conf } = parse(attachment);
        const isDeleted = runtime.findCachedConfig(list, conf) === undefined &&
          // Without a lock, the next ADD might be running.
          findLost(attachment) !== undefined;
        if (!isDeleted) return done.get(attachment) ?? gone;
        await runtime.delNetworkList(list, conf, { signal });
        return gone;
      } catch (error) {
        return { ...gone, error: describeError(error) };
      }
    });
    if (undone !== undefined) done.set(attachment, undone);
  }
}

/**
 * Waits until no plugin runs DEL of these attachments, nor is about to; returns false
 * if something else is to be done before.
 */
async function waitForDels(
  attachments: ReadonlySet<NodeAttachment>,
  hostNetns: string,
  isInterrupted: () => boolean,
): Promise<boolean> {
  if (attachments.size === 0) return true;
  const containers = new Set(
    [...attachments].map(({ containerId }) => containerId),
  );
  const hostId = findFileId(hostNetns);
  const startMs = performance.now();
  let seenMs = startMs;
  for (;;) {
    if (isInterrupted()) return false;
    const plugins = await listRunningPlugins();
    const now = performance.now();
    if (
      plugins.some(({ command, container, namespaceId }) =>
        command === "DEL" && containers.has(container) &&
        namespaceId === hostId
      )
    ) seenMs = now;
    if (now - seenMs >= BETWEEN_PLUGINS_MS) return true;
    if (now - startMs >= MOST_DEL_MS) return true;
    await pause(LOOK_MS);
  }
}

async function repairAttachment(
  attachment: NodeAttachment,
  runtime: NetworkRuntime,
  options: RepairOptions,
): Promise<AttachmentRepair> {
  const plugins: PluginRepair[] = [];
  try {
    const lost = hadInterface(attachment) ? findLost(attachment) : undefined;
    if (lost !== undefined) return { attachment, plugins, error: lost };
    const { list, conf } = parse(attachment);
    if (list.plugins.length === 0) return { attachment, plugins };
    await runtime.repairNetworkList(list, conf, {
      ...options,
      onRepair: (repair) => plugins.push(repair),
    });
    return { attachment, plugins };
  } catch (error) {
    // Without CHECK, nothing shows what is missing.
    return error instanceof CheckNotSupportedError
      ? { attachment, plugins }
      : { attachment, plugins, error: describeError(error) };
  }
}

/** Returns the plugins to call for an attachment, and their input. */
function parse(
  attachment: NodeAttachment,
): {
  readonly list: ReturnType<typeof parseCachedConfig>;
  readonly conf: RuntimeConf;
} {
  const { network, config, containerId, netns, ifName } = attachment;
  const list = parseCachedConfig(config);
  // The plugins of a chain are asked themselves, and the networks of multus are
  // attachments of their own.
  const plugins = unfoldChains(list.plugins)
    .filter(({ type }) => !typeHas(type, "runs listed plugins"));
  const { cniArgs: args, capabilityArgs } = attachment;
  return {
    list: { ...list, name: network, plugins },
    conf: { containerId, netns, ifName, args, capabilityArgs },
  };
}

/**
 * Says that the interface is gone, if it is: only another ADD makes it again. The
 * path of a process that has ended may lead to another container by now.
 */
function findLost(attachment: NodeAttachment): string | undefined {
  const { netns, ifName } = attachment;
  try {
    using sandbox = Rtnl.open(netns);
    if (sandbox.link.find(ifName) === undefined) {
      return `Interface "${ifName}" was deleted: restart the container`;
    }
    const result = resultOf(attachment);
    return result && isOfAnotherResult(sandbox, result, attachment)
      ? `"${netns}" is of another container`
      : undefined;
  } catch (error) {
    if (isMissingNetns(error)) return `"${netns}" was deleted`;
    throw error;
  }
}
