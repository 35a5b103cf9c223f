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
import { resultOf } from "../../libcni/cached_result.ts";
import {
  formatLifetime,
  type NetworkAddresses,
  readNetworkAddresses,
} from "../node/network_addresses.ts";
import { getPod, shortenId } from "../node/target.ts";
import {
  DEFAULT_SOCKET,
  SHIM_DIRECTORY,
  SOCKET_NAME,
} from "../../daemon/wire/daemon_socket.ts";
import { readNodeDaemon, type StateDocument } from "../node/node_daemon.ts";
import type {
  RepairDocument,
  RepairsDocument,
} from "../../daemon/server/state_handler.ts";
import { isAccessLinkName } from "../../plugins/parts/link/access_link_name.ts";
import type { Output } from "../../base/command_line/command.ts";
import type { CniCall } from "../flags.ts";
import {
  chooseExitCode,
  getNetwork,
  readDirectories,
} from "../node/network.ts";
import { type Column, formatListing } from "../../base/command_line/table.ts";
import { formatTime } from "../../base/time.ts";

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
  /** The addresses of ADD or, if the network assigns them, the present addresses. */
  readonly addresses: readonly string[];
  /**
   * The present values that slaac and dhcp received from the network; null for other
   * plugins, and if they cannot be read.
   */
  readonly fromNetwork: NetworkAddresses | null;
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
  /** The host's link of `hostAccess`; null without `hostAccess`. */
  readonly hostAccess: string | null;
  /**
   * What the node daemon has repaired last, and why it could not repair something in
   * its last round; null if it did not.
   */
  readonly lastRepair: RepairDocument | null;
  readonly repairError: string | null;
}

/** Reads the attachment cache, and queries the node daemon about pods. */
export async function list(call: CniCall): Promise<Output> {
  const directories = readDirectories(call);
  const [network] = call.args;
  const name = network?.includes("/")
    ? getNetwork(directories, network).name
    : network;
  const all = listNodeAttachments(directories);
  const { pod } = call.flags;
  const state = await readState(call, all);
  const rows = await Promise.all(
    all
      .filter((one) => name === undefined || one.network === name)
      .filter((one) => pod === undefined || one.pod === pod)
      .filter((one) => name !== undefined || !isCovered(one, all))
      .map((one) => toRow(one, state)),
  );
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

/** Where a node daemon listens: alone, or with multus. */
const SOCKETS = [DEFAULT_SOCKET, `${SHIM_DIRECTORY}/${SOCKET_NAME}`];

/** The data of node daemons about attachments. */
type State = Pick<StateDocument, "missingNetworks" | "repairs">;

/** Queries the node's daemons about attachments. */
async function readState(
  { signal }: CniCall,
  all: readonly NodeAttachment[],
): Promise<State> {
  let known: State = {};
  if (all.length === 0) return known;
  for (const socket of SOCKETS) {
    const daemon = await readNodeDaemon({ socket, signal })
      // This user may not connect to it.
      .catch(() => undefined);
    if (daemon?.is === "running") known = { ...daemon.state, ...known };
  }
  return known;
}

/** Describes an attachment. */
export async function toRow(
  cached: NodeAttachment,
  state?: State,
): Promise<AttachmentRow> {
  const fromNetwork = await readNetworkAddresses(cached);
  const { netns, pod, via, definition, isLive } = cached;
  const isOwn = (one: RepairsDocument["done" | "remaining"][number]): boolean =>
    one.network === cached.network && one.container === cached.containerId &&
    one.ifname === cached.ifName;
  const { at, repaired = [] } = state?.repairs?.done?.find(isOwn) ?? {};
  const accessLink = resultOf(cached)?.interfaces
    .find(({ name, sandbox }) => !sandbox && isAccessLinkName(name));
  return {
    network: cached.network,
    pod: pod ?? null,
    via: via ?? null,
    definition: definition ?? null,
    containerID: cached.containerId,
    ifname: cached.ifName,
    addresses: fromNetwork?.addresses.map(({ address }) => address) ??
      listAddresses(cached),
    fromNetwork,
    netns,
    netnsExists: isLive ?? null,
    since: formatTime(cached.since),
    missingNetworks: state?.missingNetworks === undefined || pod === undefined
      ? null
      : state.missingNetworks.find((one) => one.pod === pod)?.networks ?? [],
    hostAccess: accessLink?.name ?? null,
    lastRepair: at === undefined ? null : { at, repaired },
    repairError: state?.repairs?.remaining.find(isOwn)?.error ?? null,
  };
}

/** Chooses the columns with values; container IDs are short unless it is wide. */
export function chooseColumns(
  { flags }: Pick<CniCall, "flags">,
  rows: readonly AttachmentRow[],
): Column<AttachmentRow>[] {
  const isWide = flags.wide || flags.output === "wide";
  return COLUMNS.filter(({ heading, cell }) =>
    ![
      "POD",
      "VIA",
      "LIFETIME",
      "ROUTER",
      "DHCP SERVER",
      "MISSING",
      "HOST ACCESS",
      "NOT REPAIRED",
      "REPAIRED",
    ].includes(heading) ||
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
    heading: "LIFETIME",
    cell: ({ fromNetwork }) =>
      fromNetwork?.addresses.map(formatLifetime).join("; ") ?? "",
    narrow: "wrap",
  },
  {
    heading: "ROUTER",
    cell: ({ fromNetwork }) => fromNetwork?.routers.join(",") ?? "",
    dropped: 2,
  },
  {
    heading: "DHCP SERVER",
    cell: ({ fromNetwork }) =>
      fromNetwork?.leases.map(({ server }) => server).join(",") ?? "",
    dropped: 3,
  },
  {
    heading: "MISSING",
    cell: ({ missingNetworks }) => missingNetworks?.join(",") ?? "",
    mark: (_row, style) => style.red,
    narrow: "wrap",
  },
  {
    heading: "NOT REPAIRED",
    cell: ({ repairError }) => repairError ?? "",
    mark: (_row, style) => style.red,
    narrow: "wrap",
  },
  {
    heading: "REPAIRED",
    cell: ({ lastRepair }) => lastRepair?.at.replace(/:\d\d\.\d+Z$/, "Z") ?? "",
    dropped: 2,
  },
  {
    heading: "HOST ACCESS",
    cell: ({ hostAccess }) => hostAccess ?? "",
    dropped: 2,
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
