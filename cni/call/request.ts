/**
 * The checks of a call before the plugin runs, in the order that runtimes
 * expect.
 *
 * @module
 */

import {
  checkNetworkName,
  type CmdArgs,
  type Command,
  COMMANDS,
} from "./args.ts";
import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import { foldKey, isObject, parseJson } from "../../base/json/json.ts";
import { isOwnNetns } from "./own_netns.ts";
import type { Plugin } from "../plugin.ts";
import { COMMAND_SINCE, DEFAULT_VERSION, isAtLeast } from "../version.ts";

/** The same for any command. */
const SINCE: Partial<Record<Command, string>> = COMMAND_SINCE;

/** The content of stdin. */
export interface ConfigInput {
  /** Byte for byte, as passed to delegates. */
  readonly bytes: Uint8Array;
  readonly document: object;
  readonly name: string;
}

/** Reports whether a text is a command that acts on a configuration. */
export function isCommand(command: string): command is Command {
  return (COMMANDS as readonly string[]).includes(command);
}

/** Creates the error for an unknown command. Clients compare its exact text. */
export function unknownCommand(command: string): CniError {
  return new CniError(
    ErrorCode.InvalidEnvironment,
    `unknown CNI_COMMAND: ${command}`,
  );
}

/**
 * Reads the configuration and checks only the network's name, because an
 * unknown command must be reported before a wrong version.
 *
 * @throws {CniError} 5 if stdin cannot be read, 6 if it is not JSON, 7 if the
 *   name is missing or malformed
 */
export function readRequest(stdin: () => Uint8Array): ConfigInput {
  const bytes = readAll(stdin);
  const { name, document } = parseRequest(bytes);
  checkNetworkName(name);
  return { bytes, document, name };
}

function readAll(stdin: () => Uint8Array): Uint8Array {
  try {
    return stdin();
  } catch (error) {
    throw new CniError(
      ErrorCode.IoFailure,
      `error reading from stdin: ${describeError(error)}`,
    );
  }
}

function parseRequest(bytes: Uint8Array): { name: string; document: object } {
  try {
    const document = parseConfig(bytes);
    return { name: findText(document, "name"), document };
  } catch (error) {
    throw undecodable("error unmarshall network config", error);
  }
}

/**
 * Returns the version of a configuration. An absent or empty one means 0.1.0;
 * any other text is returned unchecked.
 *
 * Source: containernetworking/cni pkg/version/conf.go `ConfigDecoder`.
 *
 * @param config JSON text or a parsed value
 * @throws {CniError} 6 if it is not a configuration, or the version is not a
 *   string
 */
export function decodeConfigVersion(
  config: object | string | Uint8Array,
): string {
  try {
    return findText(parseConfig(config), "cniVersion") || DEFAULT_VERSION;
  } catch (error) {
    throw undecodable("decoding version from network config", error);
  }
}

/** A configuration by its keys, in any spelling. */
type ConfigDocument = Readonly<Record<string, unknown>>;

function parseConfig(config: object | string | Uint8Array): ConfigDocument {
  const isParsed = typeof config === "object" &&
    !(config instanceof Uint8Array);
  const document = isParsed ? config : parseJson(config, "it") ?? {};
  if (isObject(document)) return document;
  throw new TypeError("expected an object");
}

/** Reads one key as `decode` would. Building a schema for it takes longer. */
function findText(document: ConfigDocument, name: string): string {
  const folded = foldKey(name);
  const key = Object.keys(document).findLast((key) =>
    foldKey(key) === folded && document[key] !== null
  );
  const text = key === undefined ? "" : document[key];
  if (typeof text === "string") return text;
  throw new TypeError(`${name}: expected a string`);
}

function undecodable(failed: string, error: unknown): CniError {
  return new CniError(
    ErrorCode.DecodingFailure,
    `${failed}: ${describeError(error)}`,
  );
}

/**
 * Checks that the plugin supports the configuration's version, and that the
 * version has the command.
 *
 * Source: containernetworking/cni pkg/skel/skel.go `checkVersionAndCall`.
 *
 * @throws {CniError} 1 if not, 6 if a version to compare is malformed
 */
export function checkVersion(
  plugin: Plugin,
  command: Command,
  cniVersion: string,
): void {
  const since = SINCE[command];
  if (since !== undefined) {
    try {
      checkCommandVersion(plugin, command, { cniVersion, since });
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      throw new CniError(ErrorCode.DecodingFailure, error.message);
    }
  }
  if (plugin.versions.includes(cniVersion)) return;
  const supported = plugin.versions.map((version) => JSON.stringify(version));
  throw new CniError(
    ErrorCode.IncompatibleVersion,
    "incompatible CNI versions",
    {
      details: `config is "${cniVersion}", plugin supports [${
        supported.join(" ")
      }]`,
    },
  );
}

function checkCommandVersion(
  plugin: Plugin,
  command: Command,
  { cniVersion, since }: { cniVersion: string; since: string },
): void {
  const refuse = (whose: string): CniError =>
    new CniError(
      ErrorCode.IncompatibleVersion,
      `${whose} version does not allow ${command}`,
    );
  if (!isAtLeast(cniVersion, since)) throw refuse("config");
  if (!plugin.versions.some((version) => isAtLeast(version, cniVersion))) {
    throw refuse("plugin");
  }
}

/**
 * Refuses a sandbox that is the plugin's own namespace. A path like
 * /proc/PID/ns/net leads there once the PID belongs to another process on the
 * host.
 *
 * Source: containernetworking/cni pkg/ns/ns_linux.go `CheckNetNS`.
 *
 * @throws {CniError} 8 if it is its own namespace
 */
export function checkNetns(args: CmdArgs, hostNetns: string): void {
  if (!isOwnNetns(args, hostNetns)) return;
  throw new CniError(
    ErrorCode.InvalidNetns,
    "plugin's netns and netns from CNI_NETNS should not be the same",
    { details: args.netns },
  );
}
