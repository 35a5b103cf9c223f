/**
 * `cni networks`: shows the configured networks and their problems.
 *
 * @module
 */

import { listSockets, readKeys } from "../../daemon/protocol/daemon_socket.ts";
import { objectOf } from "../../cni/json/json.ts";
import { readConfFile } from "../../cni/libcni/conf_files.ts";
import {
  listConfFiles,
  parseNetworkConfList,
  type PluginConf,
  readNetworkConf,
} from "../../cni/libcni/mod.ts";
import { unfoldChains } from "../chain_form.ts";
import type { Output } from "../program/command.ts";
import type { CniCall } from "../flags.ts";
import { formatFailureText } from "../program/failure.ts";
import {
  chooseExitCode,
  type Folders,
  isFolder,
  readFolders,
  readNetworkFile,
} from "../network.ts";
import { type NodeDaemon, readNodeDaemon } from "../node_daemon.ts";
import { findMissing, findOwnPlugin } from "../plugin_file.ts";
import { type Column, formatTable } from "../program/table.ts";

/** A configuration, as shown. */
interface Row {
  /** "" if it cannot be read. */
  readonly name: string;
  readonly cniVersion: string;
  /** The plugins' types in order. */
  readonly plugins: readonly string[];
  readonly file: string;
  readonly problems: readonly string[];
  /**
   * What is at the socket of the node daemon that the plugins ask: "off" if they
   * ask none, null if none of them is this project's.
   */
  readonly daemon: NodeDaemon["is"] | "off" | "denied" | null;
}

/** Reads all configurations in search order. */
export async function networks(call: CniCall): Promise<Output> {
  const folders = readFolders(call);
  const rows = await Promise.all(
    listNetworks(folders).map(async ({ confs, ...row }) => ({
      ...row,
      daemon: await findDaemon(confs, folders, call.signal),
    })),
  );
  const hasFolder = isFolder(folders.confDir);
  const hasProblem = rows.some(({ problems }) => problems.length > 0);
  return {
    json: rows,
    text: (style) => formatTable(COLUMNS, rows, style),
    note: !hasFolder
      ? `The folder "${folders.confDir}" does not exist`
      : rows.length === 0
      ? `No network is configured in "${folders.confDir}"`
      : undefined,
    exitCode: hasFolder ? chooseExitCode(call, hasProblem) : 1,
  };
}

/** A network without its daemon. */
type ReadRow = Omit<Row, "daemon"> & {
  /** The plugins, those of chains included. */
  readonly confs: readonly PluginConf[];
};

/** Asks the daemons of a network, of which the worst counts. */
async function findDaemon(
  confs: readonly PluginConf[],
  { pluginDirs }: Folders,
  signal: AbortSignal,
): Promise<Row["daemon"]> {
  const found: Row["daemon"][] = [];
  for (const { type, document } of confs) {
    if (await findOwnPlugin(type, pluginDirs) === undefined) continue;
    const text = JSON.stringify(document);
    const keys = readKeys(new TextEncoder().encode(text));
    const [socket] = listSockets(type, keys);
    found.push(
      socket === undefined
        ? "off"
        : await readNodeDaemon({ socket, signal }).then(
          (daemon) => daemon.is,
          () => "denied" as const,
        ),
    );
  }
  return found.find((one) => one !== "running") ?? found[0] ?? null;
}

function listNetworks(folders: Folders): ReadRow[] {
  const files = [[".conflist"], [".conf", ".json"]]
    .flatMap((extensions) => listConfFiles(folders.confDir, extensions));
  const rows: ReadRow[] = [];
  let obstacle: string | undefined;
  for (const file of files) {
    const row = readRow(folders, file);
    const first = rows.find(({ name }) => name !== "" && name === row.name);
    const stop = findStop(file);
    const problems = [
      // These problems affect only a search by name.
      ...row.name === "" ? [] : stop ?? [],
      ...first
        ? [`not used: ${first.file} has "${row.name}" too, and comes first`]
        : [],
      ...obstacle === undefined || first || row.name === ""
        ? []
        : [`not found by name: ${obstacle} comes first and cannot be read`],
    ];
    rows.push({ ...row, problems: [...row.problems, ...problems] });
    if (stop !== undefined) obstacle ??= file;
  }
  return rows;
}

/**
 * Explains why a search for any network stops at a file.
 *
 * @returns Undefined if it continues
 */
function findStop(file: string): [problem: string] | undefined {
  try {
    if (file.endsWith(".conflist")) parseNetworkConfList(readConfFile(file));
    else readNetworkConf(file);
    return undefined;
  } catch (error) {
    return [formatFailureText(error)];
  }
}

function readRow({ pluginDirs }: Folders, file: string): ReadRow {
  try {
    const list = readNetworkFile(file);
    const { name, cniVersion } = list;
    const plugins = unfoldChains(list.plugins);
    const types = plugins.map(({ type }) => type);
    const problems = listMissing(plugins, pluginDirs);
    return { name, cniVersion, plugins: types, file, problems, confs: plugins };
  } catch (error) {
    const problems = [formatFailureText(error)];
    return {
      name: "",
      cniVersion: "",
      plugins: [],
      file,
      problems,
      confs: [],
    };
  }
}

/** Lists the plugin types that are not installed. */
function listMissing(
  plugins: readonly PluginConf[],
  pluginDirs: readonly string[],
): string[] {
  const types = plugins.flatMap(({ type, document }) => {
    const delegate = objectOf(document["ipam"])["type"];
    return typeof delegate === "string" ? [type, delegate] : [type];
  });
  return [...new Set(types)]
    .flatMap((type) => findMissing(type, pluginDirs) ?? []);
}

const COLUMNS: readonly Column<Row>[] = [
  { heading: "NAME", cell: ({ name }) => name },
  { heading: "VERSION", cell: ({ cniVersion }) => cniVersion },
  {
    heading: "PLUGINS",
    cell: ({ plugins }) => plugins.join(","),
    narrow: "wrap",
  },
  { heading: "DAEMON", cell: ({ daemon }) => daemon ?? "" },
  { heading: "FILE", cell: ({ file }) => file, narrow: "wrap" },
  {
    heading: "PROBLEMS",
    narrow: "wrap",
    cell: ({ problems }) => problems.join("; "),
    mark: ({ problems }, style) => problems.length > 0 ? style.red : undefined,
  },
];
