/**
 * `cni list`: shows the attachments of the node.
 *
 * @module
 */

import type { CachedAttachment } from "../../cni/libcni/mod.ts";
import { decodeResult } from "../../cni/result_decoding.ts";
import { listAttachments } from "../attachment.ts";
import type { CommandCall, Output } from "../command.ts";
import { isNetns } from "../netns/named.ts";
import { chooseExitCode, getNetwork, readFolders } from "../network.ts";
import { type Column, formatTable } from "../table.ts";

/** An attachment, as it is shown. */
interface Row {
  readonly network: string;
  readonly containerID: string;
  readonly ifname: string;
  readonly addresses: readonly string[];
  readonly netns: string;
  /** Null if it cannot be told. */
  readonly netnsExists: boolean | null;
  /** When it was made, in UTC. */
  readonly since: string;
}

/** Reads the attachment cache. */
export function list(call: CommandCall): Output {
  const folders = readFolders(call);
  const [network] = call.args;
  const name = network?.includes("/")
    ? getNetwork(folders, network).name
    : network;
  const rows = listAttachments(folders)
    .filter((cached) => name === undefined || cached.network === name)
    .map(toRow);
  // A network without attachments is well; one that nobody knows is a mistake.
  if (rows.length === 0 && name !== undefined) getNetwork(folders, name);
  const hasProblem = rows.some(({ netnsExists }) => netnsExists === false);
  return {
    json: rows,
    text: (style) => formatTable(COLUMNS, rows, style),
    exitCode: chooseExitCode(call, hasProblem),
    note: rows.length === 0
      ? `No such attachment is known in "${folders.cacheDir}"`
      : undefined,
  };
}

function toRow(cached: CachedAttachment): Row {
  const { netns } = cached;
  return {
    network: cached.network,
    containerID: cached.containerId,
    ifname: cached.ifName,
    addresses: listAddresses(cached),
    netns,
    netnsExists: (netns === "" ? undefined : isNetns(netns)) ?? null,
    since: cached.since.toISOString().replace(/\.\d+Z$/, "Z"),
  };
}

/** Lists the addresses of a result; one that cannot be read has none. */
function listAddresses({ result }: CachedAttachment): string[] {
  if (result === undefined) return [];
  try {
    return decodeResult(result).ips.map(({ address }) => String(address));
  } catch {
    return [];
  }
}

const COLUMNS: readonly Column<Row>[] = [
  { heading: "NETWORK", cell: ({ network }) => network },
  { heading: "CONTAINER", cell: ({ containerID }) => containerID },
  { heading: "INTERFACE", cell: ({ ifname }) => ifname },
  { heading: "ADDRESSES", cell: ({ addresses }) => addresses.join(",") },
  { heading: "NETNS", cell: ({ netns }) => netns },
  {
    heading: "EXISTS",
    cell: ({ netnsExists }) =>
      netnsExists === null ? "unknown" : netnsExists ? "yes" : "no",
    mark: ({ netnsExists }, style) =>
      netnsExists === false ? style.red : undefined,
  },
  { heading: "SINCE", cell: ({ since }) => since },
];
