/**
 * `cni networks`: shows the configured networks and their problems.
 *
 * @module
 */

import { basename } from "@std/path/posix";
import { ifPossible, isDirectory } from "../../base/files/io.ts";
import { NodeReader } from "../node/node_reader.ts";
import { listSubnets } from "../node/routed.ts";
import { countPools, findPoolProblem, type PoolUse } from "../node/pools.ts";
import type { Output } from "../../base/command_line/command.ts";
import type { CniCall } from "../flags.ts";
import { chooseExitCode, readDirectories } from "../node/network.ts";
import { type Column, formatListing } from "../../base/command_line/table.ts";
import {
  findDaemon,
  listNetworkRows,
  type NetworkRow,
} from "./read_networks.ts";

/** Reads all configurations in search order, or describes a single network. */
export async function networks(call: CniCall): Promise<Output> {
  const directories = readDirectories(call);
  const [name] = call.args;
  if (name !== undefined) {
    const { describeNetwork } = await import("./details.ts");
    return await describeNetwork(name, call);
  }
  const { env, flags, signal } = call;
  using node = new NodeReader({ directories, env, signal });
  const attached = ifPossible(() => node.attachments);
  const pools = countPools(node);
  const rows = await Promise.all(
    listNetworkRows(directories).map(
      async ({ confs, ...row }): Promise<NetworkRow> => {
        const pool = findScarcest(pools, row);
        const known = node.networks.find(({ path }) => path === row.file);
        const poolProblem = known ? findPoolProblem(known) : null;
        return {
          ...row,
          problems: [
            ...row.problems,
            ...poolProblem === null ? [] : [`ipam: ${poolProblem}`],
          ],
          subnets: [
            ...new Set(confs.flatMap((conf) => listSubnets(conf)).map(String)),
          ],
          used: pool === undefined ? null : Number(pool.used),
          staying: pool === undefined ? null : pool.persistent.length,
          addresses: pool === undefined ? null : Number(pool.all),
          poolProblem,
          attachments: attached?.filter(({ network }) => network === row.name)
            .length ?? null,
          daemon: (await findDaemon(confs, directories, call.signal)).is,
        };
      },
    ),
  );
  const hasDirectory = isDirectory(directories.confDir);
  const hasProblem = !hasDirectory ||
    rows.some(({ problems }) => problems.length > 0);
  const isNamed = Boolean(flags["conf-dir"] ?? env["NETCONFPATH"]);
  return {
    json: rows,
    text: formatListing(
      call.flags,
      chooseColumns(call),
      rows,
      ({ name, file }) => name || file,
    ),
    note: !hasDirectory
      ? `The directory "${directories.confDir}" does not exist`
      : rows.length === 0
      ? `No network is configured in "${directories.confDir}"`
      : undefined,
    exitCode: isNamed && !hasDirectory ? 1 : chooseExitCode(call, hasProblem),
  };
}

/** Finds the range set with the fewest addresses left: an ADD needs one of each. */
function findScarcest(
  pools: readonly PoolUse[],
  { name, file }: Pick<NetworkRow, "name" | "file">,
): PoolUse | undefined {
  const left = ({ all, used, persistent, setAside }: PoolUse): bigint =>
    all - used - BigInt(persistent.length + setAside.length);
  return pools.filter(({ network, path }) => network === name || path === file)
    .toSorted((one, other) => left(one) < left(other) ? -1 : 1)[0];
}

function chooseColumns({ flags }: CniCall): Column<NetworkRow>[] {
  const isWide = flags.wide || flags.output === "wide";
  return COLUMNS.map((column) =>
    column.heading === "FILE" && !isWide
      ? { ...column, cell: ({ file }) => basename(file) }
      : column
  );
}

/** Formats counts of addresses; IPv6 ranges have too many digits. */
function formatUse(used: number | null, all: number | null): string {
  if (used === null || all === null) return "";
  return `${used}/${all < 1e6 ? all : all.toExponential(0).replace("+", "")}`;
}

// NAME and FILE identify a network.
const COLUMNS: readonly Column<NetworkRow>[] = [
  { heading: "NAME", cell: ({ name }) => name },
  {
    heading: "SUBNETS",
    cell: ({ subnets }) => subnets.join(","),
    narrow: "wrap",
  },
  {
    heading: "USED",
    cell: ({ used, addresses, staying, poolProblem }) =>
      poolProblem === null
        ? formatUse(used, addresses) +
          (staying ? `, ${staying} persistent` : "")
        : "invalid",
    mark: ({ used, addresses, poolProblem }, style) =>
      poolProblem !== null || used !== null && used === addresses
        ? style.red
        : undefined,
    dropped: 3,
  },
  {
    heading: "ATTACHED",
    cell: ({ attachments }) => `${attachments ?? "unknown"}`,
    dropped: 4,
  },
  { heading: "VERSION", cell: ({ cniVersion }) => cniVersion, dropped: 1 },
  {
    heading: "PLUGINS",
    cell: ({ plugins }) => plugins.join(","),
    narrow: "wrap",
  },
  { heading: "DAEMON", cell: ({ daemon }) => daemon ?? "", dropped: 2 },
  { heading: "FILE", cell: ({ file }) => file },
  {
    heading: "PROBLEMS",
    narrow: "below",
    cell: ({ problems }) => problems.join("; "),
    mark: ({ problems }, style) => problems.length > 0 ? style.red : undefined,
  },
];
