/**
 * Determines the plugin of an executable with a different name: a wrapper's
 * `portmap.bin`, KubeVirt's `cnv-bridge`, or any other link or copy. The Go plugins
 * work with any name, because each of them is a separate file.
 *
 * @module
 */

import { formatVersions, printAndExit } from "../cni/call/answer.ts";
import { formatFailure } from "../base/error.ts";
import { listOwnNames } from "../base/process/own_names.ts";
import { readStdinSoon } from "../base/process/stdio.ts";
import {
  compareVersions,
  CURRENT_VERSION,
  listVersionsFrom,
} from "../cni/version.ts";
import { SERVED_SINCE } from "./lists/loaders.ts";
import { pluginNames, programNames, unknownName } from "./registry.ts";

/** The names to search for. Users call `cni` and `cnitool`. */
const KNOWN: readonly string[] = [...pluginNames, ...programNames]
  .filter((name) => name !== "cni" && name !== "cnitool");

/** A process with a different name. */
export interface Renamed {
  /** CNI_COMMAND. */
  readonly command: string | undefined;
  /** Reads the configuration. */
  readonly stdin: () => Uint8Array;
  /** Runs the process as a plugin. */
  readonly run: (name: string) => Promise<void>;
}

/** Runs a process as the plugin that its names or its configuration determine. */
export async function runRenamed(
  { command, stdin, run }: Renamed,
): Promise<void> {
  const names = listOwnNames();
  const found = findByName(names);
  if (found.length === 1) return await run(found[0] ?? "");
  // The input of VERSION has no type.
  if (command === "VERSION") {
    const stdout = formatVersions(commonVersions(), await readStdinSoon());
    printAndExit({ stdout, exitCode: 0 });
  }
  const type = command ? readType(stdin) : undefined;
  if (type !== undefined && KNOWN.includes(type)) return await run(type);
  const error = unknownName(names[0] ?? "", found);
  printAndExit(formatFailure(error, CURRENT_VERSION));
}

/**
 * Lists the plugins that names of an executable contain: names that equal a plugin's
 * name, or otherwise parts of a name between `-`, `.` and `_`.
 */
export function findByName(names: readonly string[]): readonly string[] {
  const exact = names.find((name) => KNOWN.includes(name));
  if (exact !== undefined) return [exact];
  return names.map(listParts).find(({ length }) => length > 0) ?? [];
}

function listParts(name: string): string[] {
  const found = KNOWN.filter((known) =>
    new RegExp(`(^|[-._])${known}($|[-._])`).test(name)
  );
  // multus-shim is not multus.
  return found.filter((known) =>
    !found.some((other) => other !== known && other.includes(known))
  );
}

function readType(stdin: () => Uint8Array): string | undefined {
  try {
    const { type } = JSON.parse(new TextDecoder().decode(stdin()));
    return String(type);
  } catch {
    return undefined; // no configuration
  }
}

/** Lists the versions that each plugin supports. */
function commonVersions(): readonly string[] {
  const [newest = "0.1.0"] = Object.values(SERVED_SINCE)
    .toSorted((one, other) => compareVersions(other, one));
  return listVersionsFrom(newest);
}
