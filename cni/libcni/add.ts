/**
 * ADD: attaching a container to a network, plugin by plugin.
 *
 * @module
 */

import { CniError, ErrorCode, toCniError } from "../error.ts";
import type { JsonObject } from "../json.ts";
import { deadline } from "../deadline.ts";
import { Rollback } from "../rollback.ts";
import { addPlugins, checkNames } from "./add_plugins.ts";
import type { AttachmentResult } from "./attachment_result.ts";
import type { Network, OperationOptions } from "./operation.ts";
import { describeAttachment, keyOf, type RuntimeConf } from "./runtime_conf.ts";
import type { Tools } from "./tools.ts";

/**
 * Runs ADD of each plugin in order, each with the result of the one before, and
 * caches the last result. What a failure leaves is for DEL.
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

/** How long the DEL after a failed ADD may take, in milliseconds. */
const UNDO_TIMEOUT_MS = 30_000;

/** When to give up, and when to give up undoing. */
export interface AddOrUndoOptions extends OperationOptions {
  /** How long the DEL after a failed ADD may take, in milliseconds; 30 s by default. */
  readonly undoTimeoutMs?: number;
}

/**
 * Runs ADD as {@linkcode addToNetwork} does and, if it fails, DEL of all
 * plugins, with a deadline of its own: that of ADD may be what was missed. What
 * fails in the DEL is logged.
 *
 * An attachment that is there already is refused, because DEL would end it.
 *
 * @throws {CniError} 3, 4 or 7 If a name is missing or malformed; 4 if the cache
 *   has this very attachment
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
      // A plugin that cannot be found would keep those before it from undoing.
      continueOnDelErrors: true,
      signal: deadline(undoTimeoutMs),
    });
  });
  const result = await addToNetwork(tools, network, conf, { signal });
  rollback.commit();
  return result;
}

/** A file that cannot be read may be that of an attachment, so it is taken for one. */
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
      "CNI_CONTAINERID and CNI_IFNAME are those of an attachment that exists; " +
      "delete that first",
  );
}
