/**
 * `cni plugins`: shows the installed plugins and whether they work.
 *
 * @module
 */

import { SPEC_VERSIONS } from "../../cni/version.ts";
import type { Output } from "../../base/command_line/command.ts";
import type { CniCall } from "../flags.ts";
import { chooseExitCode, readDirectories } from "../node/network.ts";
import { type CniPathFile, listPluginFiles } from "../node/plugin_file.ts";
import { type Column, formatListing } from "../../base/command_line/table.ts";
import { isDirectory } from "../../base/files/io.ts";

/** Asks all plugins for their versions. */
export async function plugins(call: CniCall): Promise<Output> {
  const { pluginDirs } = readDirectories(call);
  const files = await listPluginFiles(pluginDirs, call);
  const json = files.map(({ plugin, shadowedBy, problem, ...file }) => ({
    ...file,
    plugin: plugin ?? null,
    shadowedBy: shadowedBy ?? null,
    problem: problem ?? null,
  }));
  const missing = pluginDirs.filter((directory) => !isDirectory(directory));
  const notes = missing.map((directory) =>
    `The directory "${directory}" does not exist`
  );
  if (files.length === 0 && notes.length === 0) {
    notes.push(`There are no plugins in "${pluginDirs.join(":")}"`);
  }
  const isNamed = Boolean(call.flags["cni-path"] ?? call.env["CNI_PATH"]);
  const hasProblem = missing.length > 0 ||
    files.some(({ problem }) => problem !== undefined);
  return {
    json,
    text: formatListing(call.flags, COLUMNS, files, ({ name }) => name),
    note: notes.length === 0 ? undefined : notes.join("\n"),
    exitCode: isNamed && missing.length === pluginDirs.length
      ? 1
      : chooseExitCode(call, hasProblem),
  };
}

/** Formats versions, as a range if none is missing in between. */
function formatVersions(versions: readonly string[]): string {
  const known = SPEC_VERSIONS.filter((version) => versions.includes(version));
  const [oldest] = known, newest = known.at(-1);
  if (oldest === undefined || newest === undefined || oldest === newest) {
    return versions.join(",");
  }
  const from = SPEC_VERSIONS.indexOf(oldest);
  const range = SPEC_VERSIONS.slice(from, SPEC_VERSIONS.indexOf(newest) + 1);
  return range.length === versions.length
    ? `${oldest}-${newest}`
    : versions.join(",");
}

/** Also names the plugin if the file has a different name. */
function describeOrigin({ name, origin, plugin = name }: CniPathFile): string {
  return plugin === name ? origin : `${origin} (${plugin})`;
}

function describeProblem({ problem, shadowedBy }: CniPathFile): string {
  return [problem, shadowedBy && `not used: ${shadowedBy} comes first`]
    .filter((text) => text !== undefined).join("; ");
}

// NAME and PATH identify a plugin.
const COLUMNS: readonly Column<CniPathFile>[] = [
  { heading: "NAME", cell: ({ name }) => name },
  {
    heading: "VERSIONS",
    cell: ({ versions }) => formatVersions(versions),
    dropped: 2,
  },
  { heading: "ORIGIN", cell: describeOrigin, dropped: 1 },
  { heading: "PATH", cell: ({ path }) => path },
  {
    heading: "PROBLEMS",
    narrow: "below",
    cell: describeProblem,
    mark: ({ problem, shadowedBy }, style) =>
      problem !== undefined
        ? style.red
        : shadowedBy !== undefined
        ? style.yellow
        : undefined,
  },
];
