/**
 * Reads the configured networks, and the state of the daemons that they use.
 *
 * @module
 */

import { readConfFile } from "../../libcni/conf_files.ts";
import {
  listConfFiles,
  parseNetworkConfList,
  type PluginConf,
  readNetworkConf,
} from "../../libcni/mod.ts";
import { listSockets, readKeys } from "../../daemon/wire/daemon_socket.ts";
import { unfoldChains } from "../node/chain_form.ts";
import { type Directories, readNetworkFile } from "../node/network.ts";
import { type NodeDaemon, readNodeDaemon } from "../node/node_daemon.ts";
import { findMissing, findOwnPlugin } from "../node/plugin_file.ts";
import { formatFailureText } from "../../base/command_line/failure.ts";
import { typesWithIpam } from "../../cni/config/ipam.ts";

/** A configuration, as shown. */
export interface NetworkRow {
  /** "" if it cannot be read. */
  readonly name: string;
  readonly cniVersion: string;
  /** The plugins' types in order. */
  readonly plugins: readonly string[];
  readonly file: string;
  readonly problems: readonly string[];
  /**
   * The subnets of all IPAM plugins, as far as the configuration contains them.
   */
  readonly subnets: readonly string[];
  /**
   * How many addresses host-local has given out, of the range set with the
   * fewest left; null without it.
   */
  readonly used: number | null;
  /** How many of that set are persistent addresses of pods that do not exist. */
  readonly staying: number | null;
  /** How many that set can give out. */
  readonly addresses: number | null;
  /** Why host-local cannot give out addresses: its ranges are invalid. */
  readonly poolProblem: string | null;
  /** Null if the cache cannot be read. */
  readonly attachments: number | null;
  /**
   * What is at the socket of the node daemon that the plugins ask: "off" if they
   * ask none, null if none of them is this project's.
   */
  readonly daemon: NodeDaemon["is"] | "off" | "denied" | null;
}

/** A network, as its file describes it. */
type ReadRow =
  & Pick<
    NetworkRow,
    "name" | "cniVersion" | "plugins" | "file" | "problems"
  >
  & {
    /** The plugins, including the plugins of chains. */
    readonly confs: readonly PluginConf[];
  };

/** A daemon that plugins use. */
export interface AskedDaemon {
  readonly is: NetworkRow["daemon"];
  /** Undefined if no daemon is used. */
  readonly socket?: string | undefined;
}

/** Asks the daemons of a network, and returns the worst answer. */
export async function findDaemon(
  confs: readonly PluginConf[],
  { pluginDirs }: Directories,
  signal: AbortSignal,
): Promise<AskedDaemon> {
  const found: AskedDaemon[] = [];
  for (const { type, document } of confs) {
    if (await findOwnPlugin(type, pluginDirs) === undefined) continue;
    const text = JSON.stringify(document);
    const keys = readKeys(new TextEncoder().encode(text));
    const [socket] = listSockets(type, keys);
    const is = socket === undefined
      ? "off"
      : await readNodeDaemon({ socket, signal }).then(
        (daemon) => daemon.is,
        () => "denied" as const,
      );
    found.push({ is, socket });
  }
  return found.find(({ is }) => is !== "running") ?? found[0] ?? { is: null };
}

/** Lists the networks of all files, and their problems. */
export function listNetworkRows(directories: Directories): ReadRow[] {
  const files = [[".conflist"], [".conf", ".json"]]
    .flatMap((extensions) => listConfFiles(directories.confDir, extensions));
  const rows: ReadRow[] = [];
  let obstacle: string | undefined;
  for (const file of files) {
    const row = readRow(directories, file);
    const first = rows.find(({ name }) => name !== "" && name === row.name);
    const stop = findStop(file);
    const problems = [
      // These problems affect only a search by name.
      ...row.name === "" ? [] : stop ?? [],
      ...first
        ? [`not used: ${first.file} also has "${row.name}", and comes first`]
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

function readRow({ pluginDirs }: Directories, file: string): ReadRow {
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
  return typesWithIpam(plugins)
    .flatMap((type) => findMissing(type, pluginDirs) ?? []);
}
