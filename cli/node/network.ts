/**
 * Networks, and the environment and flags for attaching to them.
 *
 * @module
 */

import { checkNetworkName } from "../../cni/call/args.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { isTimeout } from "../../base/deadline.ts";
import { splitPath } from "../../cni/invoke/find.ts";
import { ifPossible, readFile } from "../../base/files/io.ts";
import { isObject, type JsonObject, parseJson } from "../../base/json/json.ts";
import {
  AttachmentLocks,
  type CniArgs,
  DEFAULT_CACHE_DIR,
  findNetworkConfList,
  listConfFiles,
  lockDirectoryOf,
  type NetworkConfList,
  NetworkNotFoundError,
  NetworkRuntime,
  NoConfigsFoundError,
  readNetworkConf,
  readNetworkConfList,
  type RuntimeConf,
  toNetworkConfList,
} from "../../libcni/mod.ts";
import { type CniCall, DIRECTORIES } from "../flags.ts";
import { createNodeInvoker, readPluginEnv } from "./node_invoker.ts";
import { formatDuration } from "../../base/duration.ts";
import { shell } from "../../base/command_line/shell.ts";
import { didYouMean } from "../../base/command_line/suggest.ts";

const DEFAULT_CONF_DIR = "/etc/cni/net.d";
const DEFAULT_PLUGIN_DIR = "/opt/cni/bin";
const DEFAULT_IFNAME = "eth0";

/** The directories that the tool uses. */
export interface Directories {
  /** Directories with plugins in search order. */
  readonly pluginDirs: readonly string[];
  /** The directory with configurations. */
  readonly confDir: string;
  /** The directory with the attachment cache. */
  readonly cacheDir: string;
  /** The flags that set them on the command line; none if undefined. */
  readonly flags?: DirectoryFlags;
}

/** The name of a flag that sets a directory. */
export type DirectoryFlag = typeof DIRECTORIES[number];

/** Values of the flags that set directories. */
export type DirectoryFlags = Readonly<
  Partial<Record<DirectoryFlag, string | undefined>>
>;

/**
 * Writes a command of this tool for a report, with the flags that set the directories of
 * the report.
 *
 * @param command Without the tool's name, such as `gc --orphans`
 * @param accepted The flags that the command has
 */
export function toolCommand(
  { flags = {} }: Pick<Directories, "flags">,
  command: string,
  accepted: readonly DirectoryFlag[] = DIRECTORIES,
): string {
  const words = accepted.flatMap((name) => {
    const value = flags[name];
    return value === undefined ? [] : [shell`--${name}=${value}`];
  });
  return ["cni", command, ...words].join(" ");
}

/** Reads the directories: flags first, then the environment, then defaults. */
export function readDirectories(call: CniCall): Directories {
  const usual = defaultDirectories(call.env);
  const path = call.flags["cni-path"];
  return {
    pluginDirs: path === undefined ? usual.pluginDirs : splitPath(path),
    confDir: call.flags["conf-dir"] ?? usual.confDir,
    cacheDir: call.flags["cache-dir"] ?? usual.cacheDir,
    flags: Object.fromEntries(
      DIRECTORIES.flatMap((name) => {
        const value = call.flags[name];
        return value === undefined ? [] : [[name, value]];
      }),
    ),
  };
}

/** Returns where files are by the environment, or by default. */
export function defaultDirectories(env: CniCall["env"]): Directories {
  return {
    pluginDirs: splitPath(env["CNI_PATH"] || DEFAULT_PLUGIN_DIR),
    confDir: env["NETCONFPATH"] || DEFAULT_CONF_DIR,
    cacheDir: DEFAULT_CACHE_DIR,
  };
}

/** Returns the exit code of a table: with `--exit-code`, 1 if there is a problem. */
export function chooseExitCode(
  { flags }: Pick<CniCall, "flags">,
  hasProblem: boolean,
): number {
  return hasProblem && flags["exit-code"] ? 1 : 0;
}

/** The requested network has no configuration. */
export class UnknownNetworkError extends CniError {}

/**
 * Finds a network.
 *
 * @param network Its name, or a path with a slash
 * @throws {UnknownNetworkError} If no network has that name
 * @throws {CniError} 5 to 7 If its configuration, or one that is read first,
 *   cannot be read or is malformed
 */
export function getNetwork(
  { confDir }: Directories,
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

/** Suggests a file or a similar name for an unknown network. */
function findHint(confDir: string, network: string): string {
  if (ifPossible(() => Deno.statSync(network))?.isFile) {
    return `; did you mean the file ./${network}?`;
  }
  return didYouMean(network, listNetworkNames(confDir));
}

/** Lists the names of all readable networks in alphabetical order. */
export function listNetworkNames(confDir: string): string[] {
  return [...new Set(listNetworks(confDir).map(({ list }) => list.name))]
    .sort();
}

/**
 * Returns the path of a network's configuration, in search order.
 *
 * @throws {UnknownNetworkError} If no readable configuration has that name
 */
export function getNetworkFile(confDir: string, network: string): string {
  const found = listNetworks(confDir).find(({ list }) => list.name === network);
  if (found !== undefined) return found.file;
  throw new UnknownNetworkError(
    ErrorCode.Internal,
    `no net configuration with name "${network}" in ${confDir}` +
      findHint(confDir, network),
  );
}

/** A network and the file that configures it. */
export interface NetworkFile {
  readonly file: string;
  readonly list: NetworkConfList;
}

/** Lists all readable networks in search order. */
export function listNetworks(confDir: string): NetworkFile[] {
  return [[".conflist"], [".conf", ".json"]]
    .flatMap((extensions) => listConfFiles(confDir, extensions))
    .flatMap((file) => {
      const list = ifPossible(() => readNetworkFile(file));
      return list === undefined ? [] : [{ file, list }];
    });
}

/**
 * Reads a network's configuration, a list or a bare plugin under any file name.
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

/** Reports whether a file has a list. Problems are reported when it is read. */
function hasPlugins(path: string): boolean {
  try {
    const document = parseJson(readFile(path));
    return isObject(document) && Object.hasOwn(document, "plugins");
  } catch {
    return false;
  }
}

/**
 * Creates the runtime. It runs plugins as {@linkcode createNodeInvoker} does.
 *
 * @param locks Left out if the caller already holds the lock
 */
export function createRuntime(
  call: Pick<CniCall, "env" | "flags" | "onStderr">,
  { pluginDirs, cacheDir }: Directories,
  locks?: AttachmentLocks,
): NetworkRuntime {
  return new NetworkRuntime({
    pluginDirs,
    env: readPluginEnv(call),
    cacheDir,
    onStderr: call.onStderr,
    invoker: createNodeInvoker(),
    ...locks && { locks },
  });
}

/**
 * Fails if time is up. Otherwise, a lock would seem to be held elsewhere.
 *
 * @throws {CniError} 11 If time is up
 */
export function refuseLate(
  { signal, timeoutMs }: Pick<CniCall, "signal" | "timeoutMs">,
): void {
  if (!signal.aborted || !isTimeout(signal)) return;
  throw new CniError(
    ErrorCode.TryAgainLater,
    `Timed out after ${
      formatDuration(timeoutMs)
    }, before any plugin was started`,
  );
}

/** Creates the locks that all calls with one cache share. */
export function createLocks({ cacheDir }: Directories): AttachmentLocks {
  return new AttachmentLocks(lockDirectoryOf(cacheDir));
}

/**
 * Reads the arguments for plugins from flags and environment.
 *
 * @throws {CniError} 4 If CNI_ARGS or CAP_ARGS is malformed
 */
export function readArgs(
  call: CniCall,
): Pick<RuntimeConf, "ifName" | "args" | "capabilityArgs"> {
  const { env } = call;
  return {
    capabilityArgs: parseCapabilityArgs(env["CAP_ARGS"] ?? ""),
    args: parseCniArgs(env["CNI_ARGS"] ?? ""),
    ifName: call.flags.ifname ?? env["CNI_IFNAME"] ?? DEFAULT_IFNAME,
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
