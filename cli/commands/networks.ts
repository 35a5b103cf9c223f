/**
 * `cni networks`: shows the networks that are configured, and what is wrong
 * with them.
 *
 * @module
 */

import { findPlugin } from "../../cni/invoke/find.ts";
import { objectOf } from "../../cni/json.ts";
import { listConfFiles, type PluginConf } from "../../cni/libcni/mod.ts";
import { unfoldChains } from "../chain_form.ts";
import type { CommandCall, Output } from "../command.ts";
import { formatFailureText } from "../failure.ts";
import { type Folders, readFolders, readNetworkFile } from "../network.ts";
import { type Column, formatTable } from "../table.ts";

/** A configuration, as it is shown. */
interface Row {
  /** "" if it cannot be read. */
  readonly name: string;
  readonly cniVersion: string;
  /** The plugins' types, in order. */
  readonly plugins: readonly string[];
  readonly file: string;
  readonly problems: readonly string[];
}

/** Reads all configurations, in the order in which a network is searched for. */
export function networks(call: CommandCall): Output {
  const folders = readFolders(call);
  const rows = listNetworks(folders);
  return {
    json: rows,
    text: (style) => formatTable(COLUMNS, rows, style),
    note: rows.length === 0
      ? `No network is configured in "${folders.confDir}"`
      : undefined,
  };
}

function listNetworks(folders: Folders): Row[] {
  const files = [[".conflist"], [".conf", ".json"]]
    .flatMap((extensions) => listConfFiles(folders.confDir, extensions));
  const rows: Row[] = [];
  for (const file of files) {
    const row = readRow(folders, file);
    const first = rows.find(({ name }) => name !== "" && name === row.name);
    const hidden = first && `not used: "${row.name}" is in ${first.file}`;
    const problems = row.problems.concat(hidden ?? []);
    rows.push({ ...row, problems });
  }
  return rows;
}

function readRow({ pluginDirs }: Folders, file: string): Row {
  try {
    const list = readNetworkFile(file);
    const { name, cniVersion } = list;
    const plugins = unfoldChains(list.plugins);
    const types = plugins.map(({ type }) => type);
    const problems = listMissing(plugins, pluginDirs);
    return { name, cniVersion, plugins: types, file, problems };
  } catch (error) {
    const problems = [formatFailureText(error)];
    return { name: "", cniVersion: "", plugins: [], file, problems };
  }
}

/** Lists the types that plugins are of and nobody has. */
function listMissing(
  plugins: readonly PluginConf[],
  pluginDirs: readonly string[],
): string[] {
  const types = plugins.flatMap(({ type, document }) => {
    const delegate = objectOf(document["ipam"])["type"];
    return typeof delegate === "string" ? [type, delegate] : [type];
  });
  return [...new Set(types)].flatMap((type) => {
    try {
      findPlugin(type, pluginDirs);
      return [];
    } catch (error) {
      return formatFailureText(error);
    }
  });
}

const COLUMNS: readonly Column<Row>[] = [
  { heading: "NAME", cell: ({ name }) => name },
  { heading: "VERSION", cell: ({ cniVersion }) => cniVersion },
  { heading: "PLUGINS", cell: ({ plugins }) => plugins.join(",") },
  { heading: "FILE", cell: ({ file }) => file },
  {
    heading: "PROBLEMS",
    cell: ({ problems }) => problems.join("; "),
    mark: ({ problems }, style) => problems.length > 0 ? style.red : undefined,
  },
];
