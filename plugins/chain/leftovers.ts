/**
 * Orphans of chain: records of attachments whose ADD or DEL failed, or was killed.
 * They are removed by DEL of the chain, with the input of then.
 *
 * @module
 */

import type {
  Leftovers,
  LeftoverSearch,
  Orphan,
} from "../../metadata/leftovers.ts";
import { decodeResult } from "../../cni/result/decoding.ts";
import { ifPossible } from "../../base/files/io.ts";
import type { Ip } from "../../net/ip.ts";
import {
  deleteRecorded,
  type FoundRecord,
  listRecords,
} from "./stale_records.ts";

/** See {@linkcode Leftovers}. */
export const leftovers: Leftovers = {
  finders: [(search) => listRecords().flatMap((one) => orphanOf(search, one))],
};

function orphanOf(search: LeftoverSearch, record: FoundRecord): Orphan[] {
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
  if (reason === undefined) return [];
  return [{
    kind: "attachment",
    where: path,
    container,
    network,
    ...reason,
    async remove(): Promise<void> {
      const { hostNetns, invoker, signal, onStderr = () => {} } = search;
      await deleteRecorded(record, {
        env: search.env,
        hostNetns,
        invoker,
        signal,
        onStderr,
      });
    },
  }];
}

function addressesOf({ state: { result } }: FoundRecord): Ip[] {
  return ifPossible(() =>
    decodeResult(result ?? {}).ips.map(({ address }) => address.ip)
  ) ?? [];
}
