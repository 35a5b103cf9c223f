/**
 * Networks, and what the environment and the flags say of how to attach to
 * them.
 *
 * @module
 */

import { resolve } from "@std/path/posix";
import { checkNetworkName } from "../cni/args.ts";
import { CniError, ErrorCode } from "../cni/error.ts";
import { isTimeout } from "../cni/deadline.ts";
import { splitPath } from "../cni/invoke/find.ts";
import { createInvoker } from "../cni/invoke/in_process.ts";
import { ifPossible } from "../cni/io_failure.ts";
import { isObject, type JsonObject, parseJson } from "../cni/json.ts";
import {
  AttachmentLocks,
  type CniArgs,
  DEFAULT_CACHE_DIR,
  findNetworkConfList,
  listConfFiles,
  lockFolderOf,
  type NetworkConfList,
  NetworkNotFoundError,
  NetworkRuntime,
  NoConfigsFoundError,
  readNetworkConf,
  readNetworkConfList,
  type RuntimeConf,
  toNetworkConfList,
} from "../cni/libcni/mod.ts";
import { dispatch } from "../cni/skel.ts";
import { findPlugin } from "../plugins/registry.ts";
import { type CommandCall, findFlag } from "./command.ts";
import { formatDuration } from "./duration.ts";
import { pathOfName } from "./netns/named.ts";
import { findNearest } from "./suggest.ts";

const DEFAULT_CONF_DIR = "/etc/cni/net.d";
const DEFAULT_PLUGIN_DIR = "/opt/cni/bin";
const DEFAULT_IFNAME = "eth0";

/** Where things are on this node. */
export interface Folders {
  /** Those with plugins, in the order in which they are searched. */
  readonly pluginDirs: readonly string[];
  /** The one with configurations. */
  readonly confDir: string;
  /** The one with the attachment cache. */
  readonly cacheDir: string;
}

/** Reads where things are: from the flags, else the environment, else by custom. */
export function readFolders(call: CommandCall): Folders {
  const { env } = call;
  const path = findFlag(call, "cni-path") ??
    (env["CNI_PATH"] || DEFAULT_PLUGIN_DIR);
  return {
    pluginDirs: splitPath(path),
    confDir: findFlag(call, "conf-dir") ??
      (env["NETCONFPATH"] || DEFAULT_CONF_DIR),
    cacheDir: findFlag(call, "cache-dir") ?? DEFAULT_CACHE_DIR,
  };
}

/** Says whether a path leads to a folder. */
export function isFolder(path: string): boolean {
  return ifPossible(() => Deno.statSync(path))?.isDirectory === true;
}

/** Chooses the exit code of a table: 1 if a problem counts, as `--exit-code` asks. */
export function chooseExitCode(
  { flags }: Pick<CommandCall, "flags">,
  hasProblem: boolean,
): number {
  return hasProblem && flags.has("exit-code") ? 1 : 0;
}

/** No configuration has the network that the user named. */
export class UnknownNetworkError extends CniError {}

/**
 * Finds a network.
 *
 * @param network Its name, or with a slash in it the path of its configuration
 * @throws {UnknownNetworkError} If there is none of that name
 * @throws {CniError} 5 to 7 If its configuration, or one that is read before
 *   it, cannot be read or is malformed
 */
export function getNetwork(
  { confDir }: Folders,
  network: string,
): NetworkConfList {
  if (network.includes("/")) return readNetworkFile(network);
  try {
    return findNetworkConfList(confDir, network);
  } catch (error) {
    const isMissing = error instanceof NetworkNotFoundError ||
      error instanceof NoConfigsFoundError;
    if (!isMissing) throw error;
    const { code, message } = error;
    const hint = findHint(confDir, network);
    throw new UnknownNetworkError(code, message + hint);
  }
}

/** Guesses what was meant by a name that no network has. */
function findHint(confDir: string, network: string): string {
  if (ifPossible(() => Deno.statSync(network))?.isFile) {
    return `; there is a file of that name here: ./${network}`;
  }
  const nearest = findNearest(network, listNetworkNames(confDir));
  return nearest === undefined ? "" : `; did you mean "${nearest}"?`;
}

/** Lists the names of all networks that can be read, in alphabetical order. */
export function listNetworkNames(confDir: string): string[] {
  return [...new Set(listNamedFiles(confDir).map(({ name }) => name))].sort();
}

/**
 * Returns the path of a network's configuration, in the order in which networks
 * are searched for.
 *
 * @throws {UnknownNetworkError} If there is none that can be read
 */
export function getNetworkFile(confDir: string, network: string): string {
  const found = listNamedFiles(confDir).find(({ name }) => name === network);
  if (found !== undefined) return found.file;
  throw new UnknownNetworkError(
    ErrorCode.Internal,
    `no net configuration with name "${network}" in ${confDir}` +
      findHint(confDir, network),
  );
}

function listNamedFiles(confDir: string): { name: string; file: string }[] {
  return [[".conflist"], [".conf", ".json"]]
    .flatMap((extensions) => listConfFiles(confDir, extensions))
    .flatMap((file) => {
      const name = ifPossible(() => readNetworkFile(file).name);
      return name === undefined ? [] : [{ name, file }];
    });
}

/**
 * Reads a network's configuration, a list or a bare plugin whatever the file is
 * called.
 *
 * @throws {CniError} 5 If the file cannot be read, 6 or 7 if it is malformed
 */
export function readNetworkFile(path: string): NetworkConfList {
  if (path.endsWith(".conflist") || hasPlugins(path)) {
    return readNetworkConfList(path);
  }
  const conf = readNetworkConf(path);
  checkNetworkName(conf.name);
  return toNetworkConfList(conf);
}

/** Looks whether a file is a list; what is wrong with it shows when it is read. */
function hasPlugins(path: string): boolean {
  try {
    const document = parseJson(Deno.readFileSync(path));
    return isObject(document) && Object.hasOwn(document, "plugins");
  } catch {
    return false;
  }
}

/**
 * Makes what runs plugins; ours run in this process.
 *
 * @param locks Left out where the caller has locked what it is about
 */
export function createRuntime(
  { env, onStderr }: Pick<CommandCall, "env" | "onStderr">,
  { pluginDirs, cacheDir }: Folders,
  locks?: AttachmentLocks,
): NetworkRuntime {
  return new NetworkRuntime({
    pluginDirs,
    env,
    cacheDir,
    onStderr,
    invoker: createInvoker(dispatch, findPlugin),
    ...locks && { locks },
  });
}

/**
 * Refuses to begin if time is up. A lock that is asked for then would seem to
 * be taken.
 *
 * @throws {CniError} 11 If it is
 */
export function refuseLate(
  { signal, timeoutMs }: Pick<CommandCall, "signal" | "timeoutMs">,
): void {
  if (!signal.aborted || !isTimeout(signal)) return;
  throw new CniError(
    ErrorCode.TryAgainLater,
    `Timed out after ${
      formatDuration(timeoutMs)
    }, before any plugin was started`,
  );
}

/** Makes the locks that all calls of the tool with one cache have in common. */
export function createLocks({ cacheDir }: Folders): AttachmentLocks {
  return new AttachmentLocks(lockFolderOf(cacheDir));
}

/**
 * Reads what plugins are told besides the network and the namespace.
 *
 * @throws {CniError} 4 If CNI_ARGS or CAP_ARGS is malformed
 */
export function readArgs(
  call: CommandCall,
): Pick<RuntimeConf, "ifName" | "args" | "capabilityArgs"> {
  const { env } = call;
  return {
    capabilityArgs: parseCapabilityArgs(env["CAP_ARGS"] ?? ""),
    args: parseCniArgs(env["CNI_ARGS"] ?? ""),
    ifName: findFlag(call, "ifname") ?? env["CNI_IFNAME"] ?? DEFAULT_IFNAME,
  };
}

/** Source: containernetworking/cni cnitool/cnitool.go `parseArgs`. */
function parseCniArgs(text: string): CniArgs {
  if (text === "") return [];
  return text.split(";").map((pair) => {
    const [key, value, ...others] = pair.split("=");
    if (key && value && others.length === 0) return [key, value];
    throw new CniError(
      ErrorCode.InvalidEnvironment,
      `invalid CNI_ARGS pair ${JSON.stringify(pair)}`,
    );
  });
}

function parseCapabilityArgs(text: string): JsonObject {
  if (text === "") return {};
  const document = parseJson(text, "CAP_ARGS") ?? {};
  if (isObject(document)) return document as JsonObject;
  throw new CniError(
    ErrorCode.InvalidEnvironment,
    "Cannot decode CAP_ARGS: expected an object, with capabilities as its keys",
  );
}

/**
 * Returns the path of a namespace that is given by path, or by the name that
 * `ip netns` has for it.
 *
 * @throws {Error} If it cannot be a name
 */
export function resolveNetns(netns: string): string {
  return netns.includes("/") ? resolve(netns) : pathOfName(netns);
}
