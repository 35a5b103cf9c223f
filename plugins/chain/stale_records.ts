/**
 * Records of attachments that the runtime no longer has.
 *
 * @module
 */

import { listFiles } from "../../base/files/listing.ts";
import type { CallContext, Invoker } from "../../cni/call/context.ts";
import { listedTest } from "../../cni/config/types.ts";
import type { Call } from "../../cni/plugin.ts";
import { DIRECTORY, type ReadRecord, readRecord } from "./record.ts";

/** A record of an attachment, in its file. */
export interface FoundRecord extends ReadRecord {
  readonly path: string;
  /** When it was last changed. */
  readonly since: Date;
}

/** Lists the records that can be read. */
export function listRecords(directory: string = DIRECTORY): FoundRecord[] {
  return listFiles(directory).flatMap(({ name, since }) => {
    const path = `${directory}/${name}`;
    const record = readRecord(path);
    return record === undefined ? [] : [{ ...record, path, since }];
  });
}

/**
 * Runs DEL with the input that a record has, without the namespace: its path may
 * lead to another one by now, and what was in it has gone with it.
 *
 * @throws {CniError} If a plugin fails; the record stays
 */
export async function deleteRecorded(
  { input: { env, config } }: ReadRecord,
  context: Omit<CallContext, "invoker"> & { readonly invoker: Invoker },
): Promise<void> {
  const { invoker, ...others } = context;
  await invoker.invoke({
    ...others,
    type: "chain",
    env: { ...context.env, ...env, CNI_NETNS: "", CNI_COMMAND: "DEL" },
    stdin: new TextEncoder().encode(config),
  });
}

/**
 * Tries again what an ADD or a DEL has left of attachments that are not valid, in
 * any chain of the network.
 *
 * @returns The failures
 */
export async function removeStale(
  { network, validAttachments: valid, context, signal }: Pick<
    Call,
    "network" | "validAttachments" | "context" | "signal"
  >,
  directory?: string,
): Promise<Error[]> {
  if (valid === undefined) return [];
  const { startedAt = new Date(performance.timeOrigin) } = context;
  const isValid = listedTest(valid);
  const failures: Error[] = [];
  for (const record of listRecords(directory)) {
    const { CNI_CONTAINERID: containerId = "", CNI_IFNAME: ifName = "" } =
      record.input.env;
    // The runtime made its list before a younger one.
    const isStale = record.input.network === network &&
      !isValid({ containerId, ifName }) && record.since < startedAt;
    if (!isStale) continue;
    try {
      await deleteRecorded(record, { ...context, signal });
    } catch (cause) {
      const message = `failed to delete ${containerId} ${ifName}`;
      failures.push(new Error(message, { cause }));
    }
  }
  return failures;
}
