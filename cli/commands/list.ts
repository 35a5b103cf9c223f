/**
 * `cni list`: shows the attachments of the node.
 *
 * @module
 */

import type { CachedAttachment } from "../../cni/libcni/mod.ts";
import { decodeResult } from "../../cni/result_decoding.ts";
import { listAttachments } from "../attachment.ts";
import type { Output } from "../../tool/command.ts";
import type { CniCall } from "../flags.ts";
import { isNetns } from "../netns/named.ts";
import { chooseExitCode, getNetwork, readFolders } from "../network.ts";
import { type Column, formatTable } from "../../tool/table.ts";

/** An attachment, as shown. */
interface Row {
  readonly network: string;
  /** Namespace and name of the Kubernetes pod; null if unknown. */
  readonly pod: string | null;
  readonly containerID: string;
  readonly ifname: string;
  readonly addresses: readonly string[];
  readonly netns: string;
  /** Null if unknown. */
  readonly netnsExists: boolean | null;
  /** The time of ADD, in UTC. */
  readonly since: string;
}

/** Reads the attachment cache. */
export function list(call: CniCall): Output {
  const folders = readFolders(call);
  const [network] = call.args;
  const name = network?.includes("/")
    ? getNetwork(folders, network).name
    : network;
  const rows = listAttachments(folders)
    .filter((cached) => name === undefined || cached.network === name)
    .map(toRow);
  // A network without attachments is fine, but an unknown network is a mistake.
  if (rows.length === 0 && name !== undefined) getNetwork(folders, name);
  const hasProblem = rows.some(({ netnsExists }) => netnsExists === false);
  return {
    json: rows,
    text: (style) => formatTable(chooseColumns(call, rows), rows, style),
    exitCode: chooseExitCode(call, hasProblem),
    note: rows.length === 0
      ? `There are no such attachments in "${folders.cacheDir}"`
      : undefined,
  };
}

function toRow(cached: CachedAttachment): Row {
  const { netns } = cached;
  return {
    network: cached.network,
    pod: findPod(cached),
    containerID: cached.containerId,
    ifname: cached.ifName,
    addresses: listAddresses(cached),
    netns,
    netnsExists: (netns === "" ? undefined : isNetns(netns)) ?? null,
    since: cached.since.toISOString().replace(/\.\d+Z$/, "Z"),
  };
}

/** Finds the pod in the arguments that Kubernetes runtimes pass. */
function findPod({ cniArgs }: CachedAttachment): string | null {
  const { K8S_POD_NAMESPACE: namespace, K8S_POD_NAME: name } = Object
    .fromEntries<string | undefined>(cniArgs);
  return namespace && name ? `${namespace}/${name}` : null;
}

/** Length of a shortened ID: 13 digits identify a container, as in crictl. */
function shorten(id: string): string {
  return /^[0-9a-f]{64}$/.test(id) ? id.slice(0, 13) : id;
}

function chooseColumns(
  { flags }: CniCall,
  rows: readonly Row[],
): Column<Row>[] {
  const hasPods = rows.some(({ pod }) => pod !== null);
  return COLUMNS.filter(({ heading }) => heading !== "POD" || hasPods)
    .map((column) =>
      column.heading === "CONTAINER" && !flags.wide
        ? { ...column, cell: (row) => shorten(column.cell(row)) }
        : column
    );
}

/** Lists the addresses of a result; empty if it cannot be decoded. */
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
  { heading: "POD", cell: ({ pod }) => pod ?? "" },
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
