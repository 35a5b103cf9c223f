/**
 * Checks whether a file of the node requests debug's actions. Its keys name files and
 * programs, and a configuration does not show its author: with multus, it can come
 * from any user who is permitted to create a NetworkAttachmentDefinition.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { ifPossible, readTextFile } from "../../base/files/io.ts";
import {
  findValue,
  isObject,
  type JsonObject,
  parseJson,
} from "../../base/json/json.ts";
import type { Call } from "../../cni/plugin.ts";
import type { DebugConfig } from "./schema.ts";

/** Directory of the node's configurations, unless NETCONFPATH is set. */
const DIRECTORY = "/etc/cni";

/** How many directory levels are searched for files. */
const MAX_DEPTH = 8;

const EXTENSION = /\.(conf|conflist|json)$/;

/** The keys that make debug act, by command. */
const KEYS = {
  ADD: ["cniOutput", "addHooks"],
  CHECK: ["cniOutput", "checkHooks"],
  DEL: ["cniOutput", "delHooks"],
  GC: ["cniOutput"],
  STATUS: ["cniOutput"],
} as const;

/**
 * Checks that a file of the node configures debug with the call's keys.
 *
 * @throws {CniError} 7 if no file does, and the call has keys that make debug act
 */
export function checkAskedFor(
  { command, config, context }: Call<DebugConfig>,
): void {
  const refusal = findRefused(command, config, context.env);
  if (refusal === undefined) return;
  throw new CniError(ErrorCode.InvalidNetworkConfig, refusal);
}

/**
 * Returns the reason why this node refuses a configuration; undefined if it does not.
 */
export function refusalOf(
  conf: JsonObject,
  env: Readonly<Record<string, string>>,
): string | undefined {
  const commands = ["ADD", "CHECK", "DEL"] as const;
  return commands.map((command) =>
    findRefused(command, {
      cniOutput: findValue(conf, "cniOutput"),
      addHooks: findValue(conf, "addHooks"),
      checkHooks: findValue(conf, "checkHooks"),
      delHooks: findValue(conf, "delHooks"),
    }, env)
  ).find(Boolean);
}

/** The keys that make debug act, decoded or not. */
type Acting = Readonly<
  Record<(typeof KEYS)[keyof typeof KEYS][number], unknown>
>;

function findRefused(
  command: keyof typeof KEYS,
  config: Partial<Acting>,
  env: Readonly<Record<string, string | undefined>>,
): string | undefined {
  const isGiven = (value: unknown): boolean =>
    (typeof value === "string" || Array.isArray(value)) && value.length > 0;
  const wanted = KEYS[command].filter((key) => isGiven(config[key]));
  if (wanted.length === 0) return undefined;
  const directory = env["NETCONFPATH"] || DIRECTORY;
  const isAskedFor = (object: Record<string, unknown>): boolean =>
    findValue(object, "type") === "debug" &&
    wanted.every((key) => isSame(findValue(object, key), config[key]));
  if (someObject(directory, isAskedFor)) return undefined;
  return `Refused ${wanted.map((key) => `"${key}"`).join(" and ")}: no file ` +
    `in "${directory}" contains a plugin debug with the same`;
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

type Test = (object: Record<string, unknown>) => boolean;

/** Reports whether an object at any depth in a file of a directory passes a test. */
function someObject(directory: string, test: Test, depth = 0): boolean {
  const entries = ifPossible(() => [...Deno.readDirSync(directory)]) ?? [];
  return entries.some(({ name, isDirectory }) => {
    const path = `${directory}/${name}`;
    if (isDirectory) {
      return depth < MAX_DEPTH && someObject(path, test, depth + 1);
    }
    return EXTENSION.test(name) && someInside(readDocument(path), test);
  });
}

/** Reads a document; an unreadable file requests nothing. */
function readDocument(path: string): unknown {
  return ifPossible(() => parseJson(readTextFile(path)));
}

function someInside(value: unknown, test: Test): boolean {
  if (Array.isArray(value)) return value.some((item) => someInside(item, test));
  if (!isObject(value)) return false;
  return test(value) ||
    Object.values(value).some((item) => someInside(item, test));
}
