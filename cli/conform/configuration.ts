/**
 * The configuration file of `cni conform`: what plugins need to be tried.
 *
 * @module
 */

import { basename } from "@std/path/posix";
import { CniError, ErrorCode } from "../../cni/error.ts";
import { readTextFile, withIoFailure } from "../../cni/files/io.ts";
import { parseJson } from "../../cni/json/json.ts";
import { type Profile, PROFILES } from "../../testing/conform/profiles.ts";
import type { Candidate } from "../../testing/conform/report.ts";

/** An entry of the file: what a plugin needs, by its name in the report. */
export interface Entry extends Profile {
  /** The name of its executable; the entry's own name if undefined. */
  readonly executable?: string;
  /** Its type in configurations; the executable's name if undefined. */
  readonly type?: string;
  /** A type whose built-in entry has what this one lacks. */
  readonly like?: string;
}

/** The file. */
export interface Configuration {
  readonly plugins: Readonly<Record<string, Entry>>;
}

/** Keys of an entry, and the type of their values. */
const KEYS: Readonly<Record<string, string>> = {
  executable: "string",
  type: "string",
  like: "string",
  kind: "string",
  config: "object",
  ifName: "string",
  env: "object",
  files: "object",
  host: "list",
  daemons: "list",
  each: "list",
  end: "list",
  prevResult: "object or boolean",
  full: "object",
  most: "number",
  except: "object",
  keeps: "string",
};

/**
 * Reads a configuration file.
 *
 * @throws {CniError} 5 if it cannot be read, 6 if it is not JSON, 7 if a key is
 *   unknown or of a wrong type
 */
export function readConfiguration(path: string): Configuration {
  const text = withIoFailure(`read "${path}"`, () => readTextFile(path));
  const document = parseJson(text, `"${path}"`);
  const plugins = isObject(document)
    ? Reflect.get(document, "plugins")
    : undefined;
  if (!isObject(plugins)) throw refuse(path, 'it has no object "plugins"');
  for (const [name, entry] of Object.entries(plugins)) {
    if (!isObject(entry)) throw refuse(path, `"${name}" is not an object`);
    for (const [key, value] of Object.entries(entry)) {
      const type = KEYS[key];
      if (type === undefined) {
        throw refuse(path, `"${name}" has an unknown key "${key}"`);
      }
      if (!type.split(" or ").includes(typeOf(value))) {
        throw refuse(path, `"${name}": "${key}" is not of type ${type}`);
      }
    }
  }
  return { plugins: plugins as Configuration["plugins"] };
}

function isObject(value: unknown): value is object {
  return typeOf(value) === "object";
}

function typeOf(value: unknown): string {
  return Array.isArray(value) ? "list" : value === null ? "null" : typeof value;
}

function refuse(path: string, problem: string): CniError {
  return new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot use "${path}": ${problem}`,
  );
}

/** Lists what to try of an executable: an entry each, or the built-in one. */
export function listCandidates(
  executable: string,
  path: string,
  { plugins }: Configuration,
): Candidate[] {
  const file = basename(executable);
  const entries = Object.entries(plugins).filter(([name, entry]) =>
    (entry.executable ?? name) === file
  );
  if (entries.length === 0) {
    return [{ name: file, executable, type: file, path }];
  }
  return entries.map(([name, { executable: _, type, like, ...own }]) => ({
    name,
    executable,
    type: type ?? file,
    path,
    profile: {
      ...like === undefined ? PROFILES[file] : PROFILES[like],
      ...own,
    },
  }));
}
