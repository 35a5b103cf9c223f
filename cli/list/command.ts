/**
 * `cni list`: shows the attachments of the node.
 *
 * @module
 */

import {
  isCovered,
  listAddresses,
  listNodeAttachments,
  type NodeAttachment,
} from "../node/node_attachments.ts";
import { getPod, shortenId } from "../node/target.ts";
import {
  DEFAULT_SOCKET,
  SHIM_DIRECTORY,
  SOCKET_NAME,
} from "../../daemon/wire/daemon_socket.ts";
import { readNodeDaemon } from "../node/node_daemon.ts";
import type { Output } from "../../base/command_line/command.ts";
import type { CniCall } from "../flags.ts";
import {
  chooseExitCode,
  getNetwork,
  readDirectories,
} from "../node/network.ts";
import { type Column, formatListing } from "../../base/command_line/table.ts";

/** An attachment, as shown. */
export interface AttachmentRow {
  readonly network: string;
  /** Namespace and name of the Kubernetes pod; null if unknown. */
  readonly pod: string | null;
  /** The multus network that made it; null if a runtime did. */
  readonly via: string | null;
  /** Namespace and name of the NetworkAttachmentDefinition; null if unknown. */
  readonly definition: string | null;
  readonly containerID: string;
  readonly ifname: string;
  readonly addresses: readonly string[];
  readonly netns: string;
  /** Null if unknown. */
  readonly netnsExists: boolean | null;
  /** The time of ADD, in UTC. */
  readonly since: string;
  /**
   * Networks that the pod requests and does not have; null if unknown, as
   * without a node daemon that follows the node's pods.
   */
  readonly missingNetworks: readonly string[] | null;
}

/** Networks that pods lack, by `namespace/name` of the pod; undefined if unknown. */
type MissingByPod = ReadonlyMap<string, readonly string[]> | undefined;

/** Reads the attachment cache, and asks the node daemon about pods. */
export async function list(call: CniCall): Promise<Output> {
  const directories = readDirectories(call);
  const [network] = call.args;
  const name = network?.includes("/")
    ? getNetwork(directories, network).name
    : network;
  const all = listNodeAttachments(directories);
  const { pod } = call.flags;
  const missing = await readMissing(call, all);
  const rows = all
    .filter((one) => name === undefined || one.network === name)
    .filter((one) => pod === undefined || one.pod === pod)
    .filter((one) => name !== undefined || !isCovered(one, all))
    .map((one) => toRow(one, missing));
  // A network without attachments is fine, but an unknown network is a mistake.
  if (rows.length === 0 && name !== undefined) getNetwork(directories, name);
  if (rows.length === 0 && pod !== undefined) getPod(pod, directories);
  const hasProblem = rows.some(({ netnsExists }) => netnsExists === false);
  const such = name === undefined && pod === undefined ? "" : "such ";
  return {
    json: rows,
    text: formatListing(
      call.flags,
      chooseColumns(call, rows),
      rows,
      ({ network, containerID, ifname }) =>
        [network, containerID, ifname].join("/"),
    ),
    exitCode: chooseExitCode(call, hasProblem),
    note: rows.length === 0
      ? `There are no ${such}attachments in "${directories.cacheDir}"`
      : undefined,
  };
}

/** Where a daemon that follows the node's pods listens: alone, or with multus. */
const SOCKETS = [DEFAULT_SOCKET, `${SHIM_DIRECTORY}/${SOCKET_NAME}`];

/** Asks the node daemon, if there are pods. */
async function readMissing(
  { signal }: CniCall,
  all: readonly NodeAttachment[],
): Promise<MissingByPod> {
  if (all.every(({ pod }) => pod === undefined)) return undefined;
  for (const socket of SOCKETS) {
    const daemon = await readNodeDaemon({ socket, signal })
      // This user may not ask it.
      .catch(() => undefined);
    const state = daemon?.is === "running" ? daemon.state : undefined;
    if (state?.missingNetworks === undefined) continue;
    return new Map(
      state.missingNetworks.map(({ pod, networks }) => [pod, networks]),
    );
  }
  return undefined;
}

/** Describes an attachment. */
export function toRow(
  cached: NodeAttachment,
  missing?: MissingByPod,
): AttachmentRow {
  const { netns, pod, via, definition, isLive } = cached;
  return {
    network: cached.network,
    pod: pod ?? null,
    via: via ?? null,
    definition: definition ?? null,
    containerID: cached.containerId,
    ifname: cached.ifName,
    addresses: listAddresses(cached),
    netns,
    netnsExists: isLive ?? null,
    since: cached.since.toISOString().replace(/\.\d+Z$/, "Z"),
    missingNetworks: missing === undefined || pod === undefined
      ? null
      : missing.get(pod) ?? [],
  };
}

/** Chooses the columns that say something; container IDs are short unless it is wide. */
export function chooseColumns(
  { flags }: Pick<CniCall, "flags">,
  rows: readonly AttachmentRow[],
): Column<AttachmentRow>[] {
  const isWide = flags.wide || flags.output === "wide";
  return COLUMNS.filter(({ heading, cell }) =>
    !["POD", "VIA", "MISSING"].includes(heading) ||
    rows.some((row) => cell(row) !== "")
  ).map((column) =>
    column.heading === "CONTAINER" && !isWide
      ? { ...column, cell: (row) => shortenId(column.cell(row)) }
      : column
  );
}

// NETWORK, POD, CONTAINER and INTERFACE identify an attachment.
const COLUMNS: readonly Column<AttachmentRow>[] = [
  { heading: "NETWORK", cell: ({ network }) => network },
  { heading: "POD", cell: ({ pod }) => pod ?? "", narrow: "middle" },
  {
    heading: "CONTAINER",
    cell: ({ containerID }) => containerID,
    narrow: "middle",
    fair: 16,
  },
  { heading: "INTERFACE", cell: ({ ifname }) => ifname },
  {
    heading: "ADDRESSES",
    cell: ({ addresses }) => addresses.join(","),
    narrow: "wrap",
  },
  {
    heading: "MISSING",
    cell: ({ missingNetworks }) => missingNetworks?.join(",") ?? "",
    mark: (_row, style) => style.red,
    narrow: "wrap",
  },
  { heading: "VIA", cell: ({ via }) => via ?? "", dropped: 2 },
  { heading: "NETNS", cell: ({ netns }) => netns, dropped: 3 },
  {
    heading: "EXISTS",
    cell: ({ netnsExists }) =>
      netnsExists === null ? "unknown" : netnsExists ? "yes" : "no",
    mark: ({ netnsExists }, style) =>
      netnsExists === false ? style.red : undefined,
    dropped: 4,
  },
  {
    heading: "SINCE",
    cell: ({ since }) => since.replace(/:\d\dZ$/, "Z"),
    dropped: 1,
  },
];
