/**
 * Plugins on disk: the origin of each file, and whether it works.
 *
 * @module
 */

import { join } from "@std/path/posix";
import type { Environment } from "../../base/process/environment.ts";
import { CniError, toCniError } from "../../base/error.ts";
import { deadline, JoinedSignal } from "../../base/deadline.ts";
import { findExecutable } from "../../cni/invoke/find.ts";
import {
  type ProgramFormat,
  readFormat,
} from "../../cni/invoke/program_format.ts";
import { getVersionInfo } from "../../cni/invoke/version_probe.ts";
import { ifPossible, unlessMissing } from "../../base/files/io.ts";
import type { Plugin } from "../../cni/plugin.ts";
import { haveSameContent } from "../../base/files/same_content.ts";
import { isSameFile, OWN_EXECUTABLE } from "../../base/files/same_file.ts";
import { listNamesOf } from "../../base/process/own_names.ts";
import {
  findPlugin,
  pluginNames,
  unknownName,
} from "../../plugins/registry.ts";
import { findByName } from "../../plugins/renamed.ts";
import { formatFailureText } from "../../base/command_line/failure.ts";
import { didYouMean } from "../../base/command_line/suggest.ts";

/** Programs that are not plugins; `multus install` copies the second program. */
const TOOLS = ["cnitool", "cni-multus"];

/** The origin of a file: this executable, a copy of it, or another program. */
export type FileOrigin = "ours" | "copy" | "other";

/** A file in a directory of CNI_PATH. */
export interface CniPathFile {
  readonly name: string;
  readonly path: string;
  readonly origin: FileOrigin;
  /** The plugin of this project that it is; undefined for other programs. */
  readonly plugin: string | undefined;
  /** The versions of the specification that it supports; empty if unknown. */
  readonly versions: readonly string[];
  /** The file of the same name in an earlier directory, which is used instead. */
  readonly shadowedBy: string | undefined;
  /** Why it cannot be used. */
  readonly problem: string | undefined;
}

/** Options of the requests for versions. */
export interface ProbeOptions {
  readonly env: Environment;
  /** Ends all requests. */
  readonly interrupt: AbortSignal;
  /** Time limit of each request, in ms; 0 for none. */
  readonly timeoutMs: number;
}

/** Maximum number of concurrent requests. */
const PROBES_AT_ONCE = 4;

/**
 * Lists the files in directories, and requests the versions of each possible plugin.
 *
 * @returns Sorted by name, then by the order of the directories
 */
export async function listPluginFiles(
  directories: readonly string[],
  probe: ProbeOptions,
): Promise<CniPathFile[]> {
  const candidates = directories.flatMap(listCandidates);
  const files: CniPathFile[] = [];
  const queue = candidates.entries();
  const work = async (): Promise<void> => {
    for (const [index, candidate] of queue) {
      files[index] = await inspect(candidate, candidates, probe);
    }
  };
  await Promise.all(Array.from({ length: PROBES_AT_ONCE }, work));
  return files.sort((left, right) => compare(left.name, right.name));
}

function compare(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

/** A file that might be a plugin. */
interface Candidate {
  readonly name: string;
  readonly path: string;
}

/** Lists the files of a directory, without those that are clearly not plugins. */
function listCandidates(directory: string): Candidate[] {
  return listNames(directory)
    .map((name) => ({ name, path: join(directory, name) }))
    .filter(({ path }) => mayBePlugin(path));
}

function listNames(directory: string): string[] {
  try {
    const entries = unlessMissing(() => [...Deno.readDirSync(directory)]);
    return (entries ?? []).map(({ name }) => name).sort();
  } catch (error) {
    throw new Error(`Cannot list the plugins in "${directory}"`, {
      cause: error,
    });
  }
}

/**
 * Reports whether an entry might be a plugin. Directories are not searched, and text
 * files are licences.
 */
function mayBePlugin(path: string): boolean {
  try {
    const { isFile, mode } = Deno.statSync(path);
    return isFile && (isExecutable(mode) || readFormat(path) === "program");
  } catch {
    return true; // Show dangling links.
  }
}

function isExecutable(mode: number | null): boolean {
  return ((mode ?? 0) & 0o111) !== 0;
}

async function inspect(
  candidate: Candidate,
  all: readonly Candidate[],
  probe: ProbeOptions,
): Promise<CniPathFile> {
  const { name, path } = candidate;
  const first = all.find((other) => other.name === name);
  const shadowedBy = first === candidate ? undefined : first?.path;
  const problem = findFileProblem(path);
  if (problem !== undefined) {
    const nothing = {
      origin: "other",
      plugin: undefined,
      versions: [],
    } as const;
    return { ...candidate, ...nothing, shadowedBy, problem };
  }
  const origin = await findOrigin(path);
  const isPlugin = origin !== "other" && !isTool({ name, origin });
  const plugin = isPlugin ? findOwnName(path) : undefined;
  const file = { ...candidate, origin, plugin, shadowedBy };
  try {
    const versions = await askVersions(file, probe);
    return { ...file, versions, problem: undefined };
  } catch (error) {
    return { ...file, versions: [], problem: formatFailureText(error) };
  }
}

const FORMAT_PROBLEMS: Readonly<Record<ProgramFormat, string | undefined>> = {
  program: undefined,
  incomplete: "not an executable: exec format error",
  foreign: "for a different architecture: exec format error",
  other: "not an executable: exec format error",
};

function findFileProblem(path: string): string | undefined {
  try {
    const { mode } = Deno.statSync(path);
    if (!isExecutable(mode)) return "not executable";
    return FORMAT_PROBLEMS[readFormat(path)];
  } catch (error) {
    return error instanceof Deno.errors.NotFound
      ? "dangling link"
      : formatFailureText(error);
  }
}

/** Reports whether a file is not a plugin, although it is among them. */
export function isTool(
  { name, origin }: Pick<CniPathFile, "name" | "origin">,
): boolean {
  // A plugin of another project can be called cni, as in k3s.
  return TOOLS.includes(name) || origin !== "other" && name === "cni";
}

async function askVersions(
  file: Pick<CniPathFile, "name" | "path" | "origin" | "plugin">,
  { env, interrupt, timeoutMs }: ProbeOptions,
): Promise<readonly string[]> {
  if (isTool(file)) return [];
  const { path, origin, plugin = "" } = file;
  const own = origin === "ours" ? await findPlugin(plugin) : undefined;
  if (own !== undefined) return own.versions;
  const limit = timeoutMs === 0 ? undefined : deadline(timeoutMs);
  using end = new JoinedSignal(limit, interrupt);
  const { signal } = end;
  const info = await getVersionInfo(path, { env, signal });
  return info.supportedVersions;
}

/** Finds the origin of a file. */
async function findOrigin(path: string): Promise<FileOrigin> {
  if (isSameFile(path, OWN_EXECUTABLE)) return "ours";
  return await isCopy(path) ? "copy" : "other";
}

/**
 * Finds the plugin that this executable runs at a path; undefined if no name of the file
 * is a plugin's.
 */
function findOwnName(path: string): string | undefined {
  const [name = "", ...others] = findByName(listNamesOf(path));
  return others.length === 0 && pluginNames.includes(name) ? name : undefined;
}

/**
 * Finds which of this project's plugins runs for a type in a configuration: the one
 * of that name, or the one that the names of its executable say.
 *
 * @returns Undefined for other plugins, and if another executable has that
 *   name. A plugin that is not installed counts, because it may be installed
 *   later.
 */
export async function findOwnType(
  type: string,
  directories: readonly string[],
): Promise<string | undefined> {
  const path = ifPossible(() => findExecutable(type, directories));
  const own = pluginNames.includes(type) ? type : path && findOwnName(path);
  const isForeign = own === undefined ||
    path !== undefined && await findOrigin(path) === "other";
  return isForeign ? undefined : own;
}

/** Finds the same plugin. */
export async function findOwnPlugin(
  type: string,
  directories: readonly string[],
): Promise<Plugin | undefined> {
  const own = await findOwnType(type, directories);
  return own === undefined ? undefined : await findPlugin(own);
}

/**
 * Returns the error that each call of a type gets: its executable is this one, and no
 * name says a plugin.
 *
 * @returns Undefined if there is no such executable, or it is a plugin
 */
export async function findNameless(
  type: string,
  directories: readonly string[],
): Promise<CniError | undefined> {
  const path = ifPossible(() => findExecutable(type, directories));
  if (path === undefined || pluginNames.includes(type)) return undefined;
  const found = findByName(listNamesOf(path));
  if (found.length === 1 || await findOrigin(path) === "other") {
    return undefined;
  }
  return unknownName(type, found);
}

/**
 * Explains that the executable of a type is missing, and suggests another type.
 *
 * @returns Undefined if it exists
 */
export function findMissing(
  type: string,
  directories: readonly string[],
): string | undefined {
  try {
    findExecutable(type, directories);
    return undefined;
  } catch (error) {
    return formatFailureText(error) + didYouMean(type, pluginNames);
  }
}

/**
 * Suggests another type in an error about plugins that are missing.
 *
 * @param types The types that a network needs
 * @returns The same error if no type is missing, or none is similar
 */
export function suggestPlugin(
  error: unknown,
  types: readonly string[],
  directories: readonly string[],
): unknown {
  const text = formatFailureText(error);
  const type = types.find((type) =>
    text.includes(`"${type}" in path`) && findMissing(type, directories)
  );
  const hint = type === undefined ? "" : didYouMean(type, pluginNames);
  if (hint === "") return error;
  return new CniError(toCniError(error).code, text + hint);
}

/** Reports whether a file has exactly the same bytes as this executable. */
async function isCopy(path: string): Promise<boolean> {
  try {
    return await haveSameContent(OWN_EXECUTABLE, path);
  } catch {
    return false; // It is executable but not readable.
  }
}
