/**
 * Records of attachments that the runtime no longer lists.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { listFiles } from "../../base/files/list_files.ts";
import type { CallContext } from "../../cni/call/context.ts";
import { type AttachmentId, listedTest } from "../../cni/config/types.ts";
import { runHere } from "../../cni/invoke/in_process.ts";
import type { Call, Plugin } from "../../cni/plugin.ts";
import { dispatch } from "../../cni/skel.ts";
import { DIRECTORY, type ReadRecord, readRecord } from "./record.ts";
import type { FindToDelete, Kept } from "./running_add.ts";

/** A record of an attachment, in its file. */
export interface FoundRecord extends ReadRecord {
  readonly path: string;
  /** When it was last changed. */
  readonly since: Date;
}

/** Creates a chain whose DEL uses this function to find the plugins to run. */
type MakeChain = (
  directory: string | undefined,
  findToDelete: FindToDelete,
) => Plugin;

/** The readable and unreadable records. */
export interface RecordListing {
  readonly records: readonly FoundRecord[];
  /**
   * Paths of damaged files, which GC cannot use; DEL of the container then runs all
   * plugins.
   */
  readonly unreadable: readonly string[];
}

/** Reads all records. An empty record is about to be written, or is removed later. */
export function readRecords(directory: string = DIRECTORY): RecordListing {
  const records: FoundRecord[] = [];
  const unreadable: string[] = [];
  for (const { name, since } of listFiles(directory)) {
    const path = `${directory}/${name}`;
    const size = ifPossible(() => Deno.statSync(path).size) ?? 0;
    const record = readRecord(path);
    if (record !== undefined) records.push({ ...record, path, since });
    else if (size > 0) unreadable.push(path);
  }
  return { records, unreadable };
}

/**
 * Reports whether the attachment of a DEL, or any attachment to the network of a GC,
 * has a record.
 */
export function hasRecord(
  { command, network, args }: Pick<Call, "command" | "network" | "args">,
  directory?: string,
): boolean {
  return readRecords(directory).records.some(({ input }) => {
    const { CNI_CONTAINERID: containerId, CNI_IFNAME: ifName } = input.env;
    const isIts = command === "GC" ||
      containerId === args.containerId && ifName === args.ifName;
    return isIts && input.network === network;
  });
}

/**
 * Runs DEL with the recorded input, without the namespace: its path might lead to a
 * different namespace now, and the objects in the old namespace were deleted with it.
 * Skips an attachment that a different call uses, or whose record has changed.
 *
 * @returns The reason for skipping it; undefined if DEL was run
 * @throws {CniError} If a plugin fails; the record stays
 */
export async function deleteRecorded(
  { input: { env, config }, since }: FoundRecord,
  context: CallContext,
  makeChain: MakeChain,
  directory?: string,
): Promise<Kept | undefined> {
  let kept: Kept | undefined;
  const find: FindToDelete = async (recorded) => {
    const { findUnused } = await import("./running_add.ts");
    const found = findUnused(recorded, since);
    if (typeof found !== "string") return found;
    kept = found;
    return undefined;
  };
  const input = {
    ...context,
    env: { ...context.env, ...env, CNI_NETNS: "", CNI_COMMAND: "DEL" },
    stdin: () => new TextEncoder().encode(config),
  };
  const chain = makeChain(directory, find);
  await runHere("chain", input, () => dispatch(chain, input));
  return kept;
}

/** The outcome of GC for the records. */
export interface StaleOutcome {
  readonly failures: readonly Error[];
  /** Attachments that other calls use, or have used since GC started. */
  readonly inUse: readonly AttachmentId[];
}

/**
 * Retries the failed ADDs and DELs of attachments that are not valid, in any chain of
 * the network.
 */
export async function removeStale(
  { network, validAttachments: valid, context, signal, log }: Pick<
    Call,
    "network" | "validAttachments" | "context" | "signal" | "log"
  >,
  makeChain: MakeChain,
  directory?: string,
): Promise<StaleOutcome> {
  if (valid === undefined) return { failures: [], inUse: [] };
  const { records, unreadable } = readRecords(directory);
  for (const path of unreadable) {
    log.warn("Leaving a record that cannot be read", { path });
  }
  const { startedAt = new Date(performance.timeOrigin) } = context;
  const isValid = listedTest(valid);
  const failures: Error[] = [];
  const inUse: AttachmentId[] = [];
  for (const record of records) {
    const { CNI_CONTAINERID: containerId = "", CNI_IFNAME: ifName = "" } =
      record.input.env;
    const mayBeStale = record.input.network === network &&
      !isValid({ containerId, ifName }) &&
      !listedTest(inUse)({ containerId, ifName });
    if (!mayBeStale) continue;
    // The runtime's list is older, so it cannot contain this attachment.
    if (record.since >= startedAt) {
      inUse.push({ containerId, ifName });
      continue;
    }
    try {
      const options = { ...context, signal };
      const kept = await deleteRecorded(
        record,
        options,
        makeChain,
        directory,
      );
      // The record was removed, so its ADD might have succeeded.
      if (kept !== undefined) inUse.push({ containerId, ifName });
    } catch (cause) {
      const message = `failed to delete ${containerId} ${ifName}`;
      failures.push(new Error(message, { cause }));
    }
  }
  return { failures, inUse };
}
