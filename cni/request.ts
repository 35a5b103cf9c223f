/**
 * What is checked of a call before the plugin is asked, in the order that
 * runtimes know.
 *
 * @module
 */

import * as z from "zod/mini";
import {
  checkNetworkName,
  type CmdArgs,
  type Command,
  COMMANDS,
} from "./args.ts";
import { CniError, describeError, ErrorCode } from "./error.ts";
import { decode, parseJson } from "./json.ts";
import { isOwnNetns } from "./own_netns.ts";
import type { Plugin } from "./plugin.ts";
import { once, optional } from "./types.ts";
import { DEFAULT_VERSION, isAtLeast } from "./version.ts";

/** The oldest version of a configuration that has the command; ADD and DEL are in all. */
const SINCE: Partial<Record<Command, string>> = {
  CHECK: "0.4.0",
  GC: "1.1.0",
  STATUS: "1.1.0",
};

/** What stdin held. */
export interface Request {
  /** Byte for byte, as delegates shall get it. */
  readonly bytes: Uint8Array;
  readonly document: object;
  readonly name: string;
  readonly cniVersion: string;
}

/** Says whether a text is a command that acts on a configuration. */
export function isCommand(command: string): command is Command {
  return (COMMANDS as readonly string[]).includes(command);
}

/** Returns the error for a command that is none; clients compare its very text. */
export function unknownCommand(command: string): CniError {
  return new CniError(
    ErrorCode.InvalidEnvironment,
    `unknown CNI_COMMAND: ${command}`,
  );
}

/**
 * Reads the configuration and checks the network's name.
 *
 * @throws {CniError} 5 if stdin cannot be read, 6 if it is not JSON, 7 if the
 * name is missing or malformed
 */
export function readRequest(stdin: () => Uint8Array): Request {
  const bytes = readAll(stdin);
  const { name, cniVersion, document } = parseRequest(bytes);
  checkNetworkName(name);
  return { bytes, document, name, cniVersion: cniVersion || DEFAULT_VERSION };
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

const requestSchema = once(() =>
  z.looseObject({
    name: optional(z.string()),
    cniVersion: optional(z.string()),
  })
);

function parseRequest(
  bytes: Uint8Array,
): { name: string; cniVersion: string; document: object } {
  try {
    const document = parseJson(bytes, "it") ?? {};
    const { name = "", cniVersion = "" } = decode(
      requestSchema(),
      document,
      "it",
    );
    return { name, cniVersion, document };
  } catch (error) {
    throw new CniError(
      ErrorCode.DecodingFailure,
      `error unmarshall network config: ${describeError(error)}`,
    );
  }
}

/**
 * Checks that the plugin serves the configuration's version, and that the
 * version has the command.
 *
 * Source: containernetworking/cni pkg/skel/skel.go `checkVersionAndCall`.
 *
 * @throws {CniError} 1 if not, 6 if a version that must be compared cannot be parsed
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
 * Refuses a sandbox that is the plugin's own namespace: a path like
 * /proc/PID/ns/net whose PID now is another process on the host.
 *
 * Source: containernetworking/cni pkg/ns/ns_linux.go `CheckNetNS`.
 *
 * @throws {CniError} 8 if it is
 */
export function checkNetns(args: CmdArgs, hostNetns: string): void {
  if (!isOwnNetns(args, hostNetns)) return;
  throw new CniError(
    ErrorCode.InvalidNetns,
    "plugin's netns and netns from CNI_NETNS should not be the same",
    { details: args.netns },
  );
}
