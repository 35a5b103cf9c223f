/**
 * The node daemon that runs a call. The launcher uses the same tables
 * (`launcher/call_format.h`).
 *
 * @module
 */

import { COMMAND, listNeeded, TRACE } from "../../cni/call/variables.ts";

/** Names of a daemon's sockets in its directory: for its own protocol, and for HTTP. */
export const SOCKET_NAME = "daemon.sock", HTTP_SOCKET_NAME = "multus.sock";

/** The default socket. */
export const DEFAULT_SOCKET: string = `/run/cni/${SOCKET_NAME}`;

/** Returns the socket over which the daemons in a directory speak HTTP. */
export function httpSocketIn(directory: string): string {
  return `${directory.replace(/\/+$/, "")}/${HTTP_SOCKET_NAME}`;
}

/** Keys of a configuration, which are case-insensitive. */
export const SocketKey = {
  /** Path of the socket; empty for none. */
  socket: "daemonSocket",
  /** Its directory, for {@linkcode DIRECTORY_PROGRAMS}. */
  directory: "daemonSocketDir",
} as const;

/** The program that also tries a second daemon, and the default directory of that daemon. */
export const SHIM = "multus-shim", SHIM_DIRECTORY = "/run/multus";

/** Programs that have {@linkcode SocketKey.directory}, and the directory if it is not there. */
export const DIRECTORY_PROGRAMS: Readonly<Record<string, string | undefined>> =
  {
    "multus": undefined,
    "chain": undefined,
    [SHIM]: SHIM_DIRECTORY,
  };

/** Any value except an empty string turns the daemon off for a call. */
export const NO_DAEMON = "CNI_NO_DAEMON";

/**
 * Reports whether a node daemon can run a call: the call has the variables of its
 * command, and is not traced, because a trace records what this process does.
 *
 * @param get Returns a variable of its environment
 */
export function isForDaemon(
  get: (name: string) => string | undefined,
): boolean {
  if (get(NO_DAEMON) || get(TRACE)) return false;
  const needed = listNeeded(get(COMMAND));
  return needed.length > 0 && needed.every(get);
}

/** Every key of a configuration in lower case; the last of several counts, and null means absent. */
export type ConfigKeys = ReadonlyMap<string, unknown>;

/** Reads the top level. The call itself reports errors of the configuration. */
export function readKeys(stdin: Uint8Array): ConfigKeys {
  try {
    const text = new TextDecoder().decode(stdin);
    return configKeysOf(JSON.parse(text) ?? {});
  } catch {
    return new Map();
  }
}

/** Lists the keys of a configuration. */
export function configKeysOf(document: object): ConfigKeys {
  const entries = Object.entries(document)
    .filter(([, value]) => value !== null)
    .map(([key, value]): [string, unknown] => [key.toLowerCase(), value]);
  return new Map(entries);
}

/** Returns the value of a key. */
export function socketValueOf(
  config: ConfigKeys,
  key: keyof typeof SocketKey,
): unknown {
  return config.get(SocketKey[key].toLowerCase());
}

/** Lists the sockets at which a daemon may listen, in the order to try them. */
export function listSockets(name: string, config: ConfigKeys): string[] {
  const socket = socketValueOf(config, "socket");
  if (socket === "") return [];
  const directory = findDirectory(name, config);
  if (socket === undefined && directory === undefined) return [DEFAULT_SOCKET];
  const paths = [socket, directory && `${directory}/${SOCKET_NAME}`];
  return paths.filter((path): path is string =>
    typeof path === "string" && path.startsWith("/")
  );
}

/** Finds the directory of a daemon's sockets, for a program that has the key. */
export function findDirectory(
  name: string,
  config: ConfigKeys,
): string | undefined {
  if (!Object.hasOwn(DIRECTORY_PROGRAMS, name)) return undefined;
  const named = socketValueOf(config, "directory");
  return typeof named === "string" && named !== ""
    ? named
    : DIRECTORY_PROGRAMS[name];
}

/** Returns the file that turns off a daemon that did not answer; the daemon removes the file. */
export function offFile(socket: string): string {
  return `${socket}${OFF_SUFFIX}`;
}

/** The suffix of {@linkcode offFile}. */
export const OFF_SUFFIX = ".off";

/** Returns the file with the times of timeouts; the daemon removes the file. */
export function timeoutsFile(socket: string): string {
  return `${socket}${TIMEOUTS_SUFFIX}`;
}

/** The suffix of {@linkcode timeoutsFile}. */
export const TIMEOUTS_SUFFIX = ".timeouts";
