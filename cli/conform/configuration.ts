/**
 * The configuration file of `cni conform`: what plugins need to be tried.
 *
 * @module
 */

import { basename } from "@std/path/posix";
import { CniError, ErrorCode } from "../../base/error.ts";
import { readTextFile, withIoFailure } from "../../base/files/io.ts";
import { isObject, parseJson } from "../../base/json/json.ts";
import { type Profile, PROFILES } from "../../testing/conform/profiles.ts";
import type { Candidate } from "../../testing/conform/report.ts";
import { REQUIREMENTS } from "../../testing/conform/rows/all.ts";

/** An entry of the file: what a plugin needs, by its name in the report. */
export interface Entry extends Profile {
  /** The name of its executable; the entry's own name if undefined. */
  readonly executable?: string;
  /** Its type in configurations; the executable's name if undefined. */
  readonly type?: string;
  /** A type whose built-in entry provides the missing keys. */
  readonly like?: string;
}

/** The file. */
export interface ConformConfiguration {
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
  env: "object of strings",
  files: "object of strings",
  host: "list of strings",
  daemons: "list of strings",
  each: "list of strings",
  end: "list of strings",
  prevResult: "object or boolean",
  full: "object",
  most: "number",
  except: "object of strings",
  keeps: "string",
};

/** A key whose value must name something known, and the kind of the thing. */
const KNOWN: Readonly<Record<string, readonly string[]>> = {
  kind: ["interface", "chained", "ipam"],
  like: Object.keys(PROFILES),
};

/**
 * Reads a configuration file.
 *
 * @throws {CniError} 5 if it cannot be read, 6 if it is not JSON, 7 if a key is
 *   unknown, or its value cannot be used
 */
export function readConfiguration(path: string): ConformConfiguration {
  const text = withIoFailure(`read "${path}"`, () => readTextFile(path));
  const document = parseJson(text, `"${path}"`);
  const { plugins, ...others } = isObject(document) ? document : {};
  if (!isObject(plugins)) throw refuse(path, 'it has no object "plugins"');
  const [other] = Object.keys(others);
  if (other !== undefined) {
    throw refuse(path, `it has an unknown key "${other}"`);
  }
  for (const [name, entry] of Object.entries(plugins)) {
    if (!isObject(entry)) throw refuse(path, `"${name}" is not an object`);
    for (const [key, value] of Object.entries(entry)) {
      const problem = findProblem(key, value);
      if (problem !== undefined) throw refuse(path, `"${name}"${problem}`);
    }
  }
  return { plugins: plugins as ConformConfiguration["plugins"] };
}

/** Describes what is wrong with a key of an entry; undefined if nothing is. */
function findProblem(key: string, value: unknown): string | undefined {
  const type = KEYS[key];
  if (type === undefined) return ` has an unknown key "${key}"`;
  if (!type.split(" or ").some((one) => isOfType(value, one))) {
    return `: "${key}" is not of type ${type}`;
  }
  const known = KNOWN[key];
  if (known?.some((one) => one === value) === false) {
    return `: "${key}" must be one of ${known.join(", ")}`;
  }
  if (key === "keeps" && !isExpression(String(value))) {
    return ': "keeps" is not a regular expression';
  }
  if (key !== "except") return undefined;
  const unknown = Object.keys(Object(value))
    .find((one) => !REQUIREMENTS.some(({ id }) => id === one));
  return unknown && `: there is no requirement "${unknown}"`;
}

/** Reports whether a value is of a type such as `list of strings`. */
function isOfType(value: unknown, type: string): boolean {
  const [outer, inner] = type.split(" of ");
  return typeOf(value) === outer &&
    (inner === undefined ||
      Object.values(Object(value)).every((one) => typeof one === "string"));
}

function typeOf(value: unknown): string {
  return Array.isArray(value) ? "list" : value === null ? "null" : typeof value;
}

function isExpression(text: string): boolean {
  try {
    new RegExp(text);
    return true;
  } catch {
    return false;
  }
}

function refuse(path: string, problem: string): CniError {
  return new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot use "${path}": ${problem}`,
  );
}

/** Lists the test entries of an executable, or its built-in entry. */
export function listCandidates(
  executable: string,
  path: string,
  { plugins }: ConformConfiguration,
): Candidate[] {
  const file = basename(executable);
  const entries = Object.entries(plugins)
    .filter((one) => executableOf(one) === file);
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

/** Lists the entries of a file that are about none of some executables. */
export function listUnused(
  { plugins }: ConformConfiguration,
  executables: readonly string[],
): string[] {
  const files = new Set(executables.map((one) => basename(one)));
  return Object.entries(plugins).filter((one) => !files.has(executableOf(one)))
    .map(([name]) => name);
}

function executableOf([name, entry]: readonly [string, Entry]): string {
  return entry.executable ?? name;
}
