/**
 * `cni add`: attaches a namespace to a network.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { CniError, ErrorCode, toCniError } from "../../base/error.ts";
import { deadline } from "../../base/deadline.ts";
import { listCapabilities } from "../../libcni/conf.ts";
import { createLog } from "../../base/log/log.ts";
import {
  type AttachmentResult,
  type CachedAttachment,
  type NetworkConfList,
  type NetworkRuntime,
  type PluginConf,
  PluginFailure,
  type RuntimeConf,
} from "../../libcni/mod.ts";
import { pluginFailure } from "../../libcni/operation.ts";
import { arrangeResult, describeNewAttachment } from "../node/attachment.ts";
import { isOfNetns, listAttachments } from "../node/node_attachments.ts";
import { findTarget, findUnknown } from "../node/target.ts";
import { type Output, readTimeLimit } from "../../base/command_line/command.ts";
import type { CniCall } from "../flags.ts";
import { formatDuration } from "../../base/duration.ts";
import { formatFailureText } from "../../base/command_line/failure.ts";
import {
  createLocks,
  createRuntime,
  type Directories,
  getNetwork,
  readDirectories,
  refuseLate,
} from "../node/network.ts";
import { listTypes } from "../node/plugin_types.ts";
import { findMissing, suggestPlugin } from "../node/plugin_file.ts";
import { showControls } from "../../base/command_line/style.ts";

/** Runs ADD, and DEL if it fails. Returns the result. */
export async function add(call: CniCall): Promise<Output> {
  const [network = "", netns = ""] = call.args;
  const directories = readDirectories(call);
  const undoTimeoutMs = readTimeLimit(call, "undo-timeout");
  const list = getNetwork(directories, network);
  const conf = await describeNewAttachment(call, netns);
  const { signal } = call;
  refuseMissing(netns, directories);
  refuseLate(call);
  // Lock before reading the cache: another call might be attaching it.
  const log = createLog({ command: "add" }, call.onStderr);
  using _lock = await createLocks(directories)
    .lockContainer(conf.containerId, { signal, log });
  const runtime = createRuntime(call, directories);
  refuseAttached(directories, list.name, conf);
  // Throws if a file that might belong to this attachment cannot be read.
  runtime.findCachedConfig(list, conf);
  const adding = { call, directories, runtime, list, conf, undoTimeoutMs };
  const json = arrangeResult(await addOrUndo(adding));
  const note = findUndeclared(list, conf);
  return { json, text: JSON.stringify(json, null, 4), note };
}

/** Names the capabilities in CAP_ARGS that no plugin declares. */
function findUndeclared(
  { name, plugins }: NetworkConfList,
  { capabilityArgs }: RuntimeConf,
): string | undefined {
  const declared = listCapabilities(plugins);
  const ignored = Object.keys(capabilityArgs ?? {})
    .filter((capability) => !declared.includes(capability))
    .map((capability) => `"${capability}"`);
  if (ignored.length === 0) return undefined;
  return `Ignored CAP_ARGS: no plugin of "${name}" declares ` +
    ignored.join(", ");
}

/** One ADD. */
interface Adding {
  readonly call: CniCall;
  readonly directories: Directories;
  readonly runtime: NetworkRuntime;
  readonly list: NetworkConfList;
  readonly conf: RuntimeConf;
  readonly undoTimeoutMs: number;
}

/** Runs ADD. If it fails, prints the error before cleaning up. */
async function addOrUndo(adding: Adding): Promise<AttachmentResult> {
  const { call, runtime, list, conf } = adding;
  const { signal } = call;
  try {
    return await runtime.addNetworkList(list, conf, { signal });
  } catch (cause) {
    const types = list.plugins.flatMap(({ document }) => listTypes(document));
    const { pluginDirs } = adding.directories;
    const error = suggestPlugin(cause, types, pluginDirs);
    const undoes = !call.flags["no-undo"] && await hasBegun(adding, cause);
    if (error instanceof Error && undoes) {
      call.showFailure(error);
      await undo(adding);
    }
    throw error;
  }
}

/** Reports whether a plugin's ADD was begun: not if the first is missing, or refuses the version. */
async function hasBegun(
  { call: { signal }, runtime, list, directories }: Adding,
  error: unknown,
): Promise<boolean> {
  const [first] = list.plugins;
  if (first === undefined) return false;
  if (!isFailureOf(first, "add", error)) return true;
  if (findMissing(first.type, directories.pluginDirs)) return false;
  if (toCniError(error).code !== ErrorCode.IncompatibleVersion) return true;
  // Its IPAM plugin might have refused.
  return await runtime
    .validateNetworkList({ ...list, plugins: [first] }, { signal })
    .then(() => true, () => signal.aborted);
}

/** Reports whether an operation failed because of this plugin of its list. */
function isFailureOf(
  plugin: PluginConf,
  action: "add" | "delete",
  error: unknown,
): boolean {
  return error instanceof PluginFailure &&
    error.message === pluginFailure(plugin, action, error.cause).message;
}

/**
 * Runs DEL of all plugins with a deadline of its own, because ADD may have run
 * out of time. Prints their output if something may be left behind.
 */
async function undo(
  { call, directories, list, conf, undoTimeoutMs }: Adding,
): Promise<void> {
  const isVerbose = call.flags.verbose;
  const held: string[] = [];
  const onStderr = isVerbose ? call.onStderr : (text: string): void => {
    held.push(text);
  };
  const signal = undoTimeoutMs === 0
    ? new AbortController().signal
    : deadline(undoTimeoutMs);
  const runtime = createRuntime({ ...call, onStderr }, directories);
  tellOfUndo(call, undoTimeoutMs);
  try {
    // Otherwise a missing plugin would keep the ones before it from undoing
    // their work.
    const options = { signal, continueOnDelErrors: true };
    await runtime.delNetworkList(list, conf, options);
  } catch (cause) {
    const { netns, ifName } = conf;
    const { pluginDirs } = directories;
    const isMissing = (type: string): boolean =>
      findMissing(type, pluginDirs) !== undefined;
    const failures = cause instanceof AggregateError ? cause.errors : [cause];
    // A plugin that is missing has done nothing.
    const absent = list.plugins.filter(({ type }) => isMissing(type));
    const errors = failures.filter((error) =>
      !absent.some((plugin) => isFailureOf(plugin, "delete", error))
    );
    if (errors.length > 0) {
      const texts = errors.map((error) => formatFailureText(error));
      const missing = list.plugins
        .flatMap(({ document }) => listTypes(document)).find(isMissing);
      const retry = missing === undefined
        ? "run"
        : `DEL also needs ${missing}. Correct its type or install it, then run`;
      const lines = `Cannot undo ADD: ${texts.join("\n")}\n` +
        `Resources might remain: ${retry} ` +
        shell`cni del ${list.name} ${netns} --ifname ${ifName}`;
      call.onStderr(
        `${held.join("")}${lines.split("\n").map(showControls).join("\n")}\n`,
      );
      return;
    }
  }
  if (!call.flags.json) call.onStderr("ADD undone\n");
}

function tellOfUndo({ flags, onStderr }: CniCall, timeoutMs: number): void {
  // Scripts that use --json might capture stderr together with stdout.
  if (flags.json) return;
  const limit = timeoutMs === 0
    ? ""
    : ` (at most ${formatDuration(timeoutMs)})`;
  onStderr(`Undoing ADD${limit}…\n`);
}

/** @throws {CniError} 8 if there is no such namespace */
export function refuseMissing(netns: string, directories: Directories): void {
  const problem = findUnknown(findTarget(netns, directories), directories);
  if (problem === undefined) return;
  throw new CniError(
    ErrorCode.InvalidNetns,
    `Cannot attach "${netns}": ${problem}`,
  );
}

/** Refuses a second ADD. It would fail, and its cleanup would end the first attachment. */
function refuseAttached(
  directories: Directories,
  network: string,
  conf: RuntimeConf,
): void {
  const { containerId, netns, ifName } = conf;
  const isTaken = (cached: CachedAttachment): boolean =>
    cached.ifName === ifName && (isOfNetns(cached, netns) ||
      cached.network === network && cached.containerId === containerId);
  const taken = listAttachments(directories).find(isTaken);
  if (taken === undefined) return;
  throw new CniError(
    ErrorCode.InvalidEnvironment,
    `Cannot attach "${netns}" to "${network}" as "${ifName}": that interface ` +
      `is already attached to "${taken.network}" with container ID ` +
      `"${taken.containerId}"; delete that attachment first`,
  );
}
