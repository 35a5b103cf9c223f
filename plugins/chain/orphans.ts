/**
 * Orphans of chain: records of attachments whose ADD or DEL failed or was killed.
 * They are removed with DEL of the chain, with the recorded input.
 *
 * @module
 */

import type {
  Orphan,
  OrphanSearch,
  PluginOrphans,
} from "../../metadata/orphans.ts";
import { decodeResult } from "../../cni/result/decoding.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { ifPossible } from "../../base/files/io.ts";
import { readIfLocked } from "../../base/files/lock.ts";
import type { Ip } from "../../net/ip.ts";
import { createChain } from "./plugin.ts";
import {
  deleteRecorded,
  type FoundRecord,
  readRecords,
} from "./stale_records.ts";

/** See {@linkcode PluginOrphans}. */
export const orphans: PluginOrphans = {
  finders: [(search) => findOrphans(search)],
};

/**
 * Finds records of deleted containers.
 *
 * @param directory The directory of the records; /run/cni/chain by default
 */
export function findOrphans(
  search: OrphanSearch,
  directory?: string,
): Orphan[] {
  return readRecords(directory).records
    .flatMap((one) => orphanOf(search, one, directory));
}

function orphanOf(
  search: OrphanSearch,
  record: FoundRecord,
  directory: string | undefined,
): Orphan[] {
  const { input: { env, network }, path, since } = record;
  const container = env["CNI_CONTAINERID"] ?? "";
  const netns = env["CNI_NETNS"] ?? "";
  const addresses = addressesOf(record);
  const reason = search.evidence.findReason({
    container,
    netns,
    addresses,
    since,
  });
  // An ADD is still using a locked record.
  if (reason === undefined || readIfLocked(path) !== "") return [];
  return [{
    kind: "attachment",
    where: path,
    container,
    network,
    ...reason,
    async remove(): Promise<void> {
      const { hostNetns, invoker, signal, onStderr = () => {} } = search;
      const { env } = search;
      const context = { env, hostNetns, invoker, signal, onStderr };
      const kept = await deleteRecorded(
        record,
        context,
        createChain,
        directory,
      );
      // The record has already been removed.
      if (kept === undefined || kept === "gone") return;
      throw new CniError(
        ErrorCode.TryAgainLater,
        `Cannot delete the attachment of container "${container}": ` +
          "another call has begun to work on it",
        {
          details: `"${path}" ${
            kept === "changed" ? "has changed" : "is locked"
          }`,
        },
      );
    },
  }];
}

function addressesOf({ state: { result } }: FoundRecord): Ip[] {
  return ifPossible(() =>
    decodeResult(result ?? {}).ips.map(({ address }) => address.ip)
  ) ?? [];
}
