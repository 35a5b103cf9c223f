/**
 * ADD: attaching a container to a network, plugin by plugin.
 *
 * @module
 */

import { CniError, ErrorCode, toCniError } from "../base/error.ts";
import type { JsonObject } from "../base/json/json.ts";
import { deadline } from "../base/deadline.ts";
import { Rollback } from "../cni/call/rollback.ts";
import { addPlugins, checkNames } from "./add_plugins.ts";
import type { AttachmentResult } from "./attachment_result.ts";
import type { Network, OperationOptions } from "./operation.ts";
import { describeAttachment, keyOf, type RuntimeConf } from "./runtime_conf.ts";
import type { Tools } from "./tools.ts";

/**
 * Runs ADD of each plugin in order, each with the previous plugin's result, and
 * caches the last result. After a failure the caller must run DEL.
 *
 * Source: containernetworking/cni libcni/api.go `AddNetworkList`.
 *
 * @throws {PluginFailure} If a plugin fails; nothing is cached
 * @throws {Error} If the cache cannot be written; the container is attached
 */
export async function addToNetwork(
  tools: Tools,
  network: Network,
  conf: RuntimeConf,
  { signal }: OperationOptions,
): Promise<AttachmentResult> {
  const added = await addPlugins(tools, network, conf, { signal });
  keepResult(tools, network, conf, added.document);
  return added;
}

function keepResult(
  { cache }: Tools,
  network: Network,
  conf: RuntimeConf,
  result: JsonObject,
): void {
  try {
    cache.writeAttachment(describeAttachment(network, conf), result);
  } catch (cause) {
    const name = JSON.stringify(network.name);
    throw new Error(`failed to set network ${name} cached result`, { cause });
  }
}

/** Time limit of the DEL after a failed ADD, in milliseconds. */
const UNDO_TIMEOUT_MS = 30_000;

/** Deadlines of an ADD and of its cleanup. */
export interface AddOrUndoOptions extends OperationOptions {
  /** Time limit of the DEL after a failed ADD, in milliseconds; 30 s by default. */
  readonly undoTimeoutMs?: number;
}

/**
 * Runs ADD as {@linkcode addToNetwork} does. If it fails, runs DEL of all
 * plugins with a deadline of its own, because ADD may have run out of time.
 * Failures of DEL are logged.
 *
 * Refuses an attachment that already exists, because DEL would end it.
 *
 * @throws {CniError} 3, 4 or 7 If a name is missing or malformed; 4 if the
 *   cache already has this attachment
 */
export async function addToNetworkOrUndo(
  tools: Tools,
  network: Network,
  conf: RuntimeConf,
  { signal, undoTimeoutMs = UNDO_TIMEOUT_MS }: AddOrUndoOptions,
): Promise<AttachmentResult> {
  checkNames(network, conf);
  if (isAttached(tools, network, conf)) throw attached(network, conf);
  await using rollback = new Rollback(tools.log);
  rollback.onFailure("undo ADD", async () => {
    const { delFromNetwork } = await import("./del.ts");
    await delFromNetwork(tools, network, conf, {
      // Otherwise a missing plugin would keep the ones before it from undoing
      // their work.
      continueOnDelErrors: true,
      signal: deadline(undoTimeoutMs),
    });
  });
  const result = await addToNetwork(tools, network, conf, { signal });
  rollback.commit();
  return result;
}

/** Reports whether the attachment is cached. An unreadable file counts, because it may be the attachment's. */
function isAttached(
  { cache }: Tools,
  network: Network,
  conf: RuntimeConf,
): boolean {
  try {
    return cache.readConfig(keyOf(network, conf)) !== undefined;
  } catch (error) {
    return toCniError(error).code === ErrorCode.DecodingFailure;
  }
}

function attached(
  { name }: Network,
  { containerId, ifName }: RuntimeConf,
): CniError {
  return new CniError(
    ErrorCode.InvalidEnvironment,
    `Cannot attach container "${containerId}" to network "${name}" as "${ifName}": ` +
      "CNI_CONTAINERID and CNI_IFNAME belong to an existing attachment; " +
      "delete it first",
  );
}
