/**
 * The CNI_* environment variables: which command needs which, and their checks.
 *
 * @module
 */

import { fitsInterfaceName, IFNAMSIZ } from "../../net/interface_name.ts";
import type { Environment } from "../../base/process/environment.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { listNeeded, type NeededVariable } from "./variables.ts";

/** The commands that act on a configuration, as CNI_COMMAND spells them. */
export const COMMANDS = ["ADD", "DEL", "CHECK", "GC", "STATUS"] as const;

/** One of {@linkcode COMMANDS}. */
export type Command = typeof COMMANDS[number];

/** The environment of one call; "" means absent. */
export interface CmdArgs {
  /** CNI_CONTAINERID. */
  readonly containerId: string;
  /** CNI_NETNS: path of the sandbox's network namespace. */
  readonly netns: string;
  /** CNI_IFNAME: name of the interface inside the sandbox. */
  readonly ifName: string;
  /** CNI_ARGS: `K=V;K2=V2`, unparsed. */
  readonly args: string;
  /** CNI_PATH: directories with plugins, joined by `:`. */
  readonly path: string;
  /** CNI_NETNS_OVERRIDE: the sandbox may be the plugin's own namespace. */
  readonly netnsOverride: boolean;
}

/** The check of a variable's value. */
const CHECKS: Readonly<
  Partial<Record<NeededVariable, (value: string) => void>>
> = { CNI_CONTAINERID: checkContainerId, CNI_IFNAME: checkInterfaceName };

/**
 * Reads the environment of one command. An empty variable counts as missing.
 *
 * @throws {CniError} 4 if a variable is missing or malformed
 */
export function readCmdArgs(command: string, env: Environment): CmdArgs {
  const missing: string[] = [];
  for (const name of listNeeded(command)) {
    const value = env[name] ?? "";
    if (value === "") missing.push(name);
    // A malformed variable is reported before earlier ones that are missing.
    else CHECKS[name]?.(value);
  }
  if (missing.length > 0) throw missingVariables(missing);
  return {
    containerId: env["CNI_CONTAINERID"] ?? "",
    netns: env["CNI_NETNS"] ?? "",
    ifName: env["CNI_IFNAME"] ?? "",
    args: env["CNI_ARGS"] ?? "",
    path: env["CNI_PATH"] ?? "",
    netnsOverride: isNetnsOverridden(env),
  };
}

/** Reports whether CNI_NETNS_OVERRIDE allows the plugin's own namespace as the sandbox. */
export function isNetnsOverridden(env: Environment): boolean {
  return /^(1|true)$/i.test(env["CNI_NETNS_OVERRIDE"] ?? "");
}

/** Returns the error for missing variables. */
export function missingVariables(names: readonly string[]): CniError {
  return new CniError(
    ErrorCode.InvalidEnvironment,
    `required env variables [${names.join(",")}] missing`,
  );
}

/** The characters of container IDs and network names. */
const NAME = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/;

/** Reports whether a text can be the ID of a container. */
export function isContainerId(text: string): boolean {
  return NAME.test(text);
}

/**
 * Checks a container ID.
 *
 * @throws {CniError} 3 if it is empty, 4 if it has an invalid character
 */
export function checkContainerId(containerId: string): void {
  if (containerId === "") {
    throw new CniError(ErrorCode.UnknownContainer, "missing containerID");
  }
  if (!isContainerId(containerId)) {
    throw new CniError(
      ErrorCode.InvalidEnvironment,
      "invalid characters in containerID",
      { details: containerId },
    );
  }
}

/**
 * Checks a network's name.
 *
 * @throws {CniError} 7 if it is empty or has an invalid character
 */
export function checkNetworkName(name: string): void {
  if (name === "") {
    throw new CniError(ErrorCode.InvalidNetworkConfig, "missing network name");
  }
  if (!NAME.test(name)) {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      "invalid characters found in network name",
      { details: name },
    );
  }
}

/** Go's unicode.IsSpace; JavaScript's `\s` has U+FEFF and lacks U+0085. */
const FORBIDDEN_IN_INTERFACE_NAME =
  /[/:\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;

/**
 * Checks an interface name against the kernel's rules.
 *
 * Source: containernetworking/cni pkg/utils/utils.go `ValidateInterfaceName`.
 *
 * @throws {CniError} 4 if it is invalid
 */
export function checkInterfaceName(name: string): void {
  const invalid = (msg: string, details?: string): CniError =>
    new CniError(
      ErrorCode.InvalidEnvironment,
      msg,
      details === undefined ? {} : { details },
    );
  if (name === "") throw invalid("interface name is empty");
  if (!fitsInterfaceName(name)) {
    throw invalid(
      "interface name is too long",
      `interface name should be less than ${IFNAMSIZ} characters`,
    );
  }
  if (name === "." || name === "..") {
    throw invalid("interface name is . or ..");
  }
  if (FORBIDDEN_IN_INTERFACE_NAME.test(name)) {
    throw invalid("interface name contains / or : or whitespace characters");
  }
}

/**
 * Splits CNI_ARGS into its pairs. If a key repeats, the last pair wins.
 *
 * @throws {CniError} 4 if a pair does not hold exactly one `=`
 */
export function parseArgs(args: string): Map<string, string> {
  return new Map(splitArgs(args).map(({ key, value }) => [key, value]));
}

/** One `K=V` of CNI_ARGS. */
interface ArgPair {
  readonly pair: string;
  readonly key: string;
  readonly value: string;
}

function splitArgs(args: string): ArgPair[] {
  if (args === "") return [];
  return args.split(";").map((pair) => {
    const [key, value, ...rest] = pair.split("=");
    if (key === undefined || value === undefined || rest.length > 0) {
      throw invalidArgs(`invalid pair ${JSON.stringify(pair)}`);
    }
    return { pair, key, value };
  });
}

/** The text ends like the Go library's, which runbooks search for. */
function invalidArgs(problem: string, cause?: unknown): CniError {
  return new CniError(
    ErrorCode.InvalidEnvironment,
    `CNI_ARGS: ${problem}`,
    cause === undefined ? {} : { cause },
  );
}

/** The key that allows keys which a plugin does not know. */
const IGNORE_UNKNOWN = "IgnoreUnknown";

/**
 * Reads the keys of CNI_ARGS that a plugin knows, as in
 * `loadArgs(call.args.args, { IP: Ip.parse })`.
 *
 * A key with an empty value is absent. If a key repeats, the last pair wins. Any
 * other key is refused unless the runtime also sets `IgnoreUnknown=1`.
 *
 * Source: containernetworking/cni pkg/types/args.go `LoadArgs`.
 *
 * @param args The value of CNI_ARGS
 * @param parsers A parser for each known key; keys are case-sensitive
 * @throws {CniError} 4 if a pair is malformed, a value cannot be parsed, or a key
 *   is unknown
 */
export function loadArgs<T>(
  args: string,
  parsers: { readonly [K in keyof T]: (text: string) => T[K] },
): Partial<T> {
  const loaded: Partial<T> = {};
  const unknown: string[] = [];
  let ignoreUnknown = false;
  for (const { pair, key, value } of splitArgs(args)) {
    if (key === IGNORE_UNKNOWN) {
      ignoreUnknown = parseValue(pair, () => parseArgBoolean(value));
    } else if (!isKeyOf(parsers, key)) unknown.push(pair);
    else if (value === "") delete loaded[key];
    else loaded[key] = parseValue(pair, () => parsers[key](value));
  }
  if (unknown.length === 0 || ignoreUnknown) return loaded;
  const pairs = unknown.map((pair) => JSON.stringify(pair));
  throw invalidArgs(`unknown args [${pairs.join(" ")}]`);
}

function isKeyOf<T extends object>(
  table: T,
  key: string,
): key is keyof T & string {
  return Object.hasOwn(table, key);
}

function parseValue<T>(pair: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    const problem = `error parsing value of pair ${JSON.stringify(pair)}`;
    throw invalidArgs(problem, error);
  }
}

/**
 * Reads a boolean of CNI_ARGS: `1`, `0`, `true` or `false`, case-insensitive.
 *
 * Source: containernetworking/cni pkg/types/args.go `UnmarshallableBool`.
 *
 * @throws {RangeError} If it is any other text
 */
export function parseArgBoolean(text: string): boolean {
  if (/^(1|true)$/i.test(text)) return true;
  if (/^(0|false)$/i.test(text)) return false;
  throw new RangeError(`Cannot parse boolean ${JSON.stringify(text)}`);
}
