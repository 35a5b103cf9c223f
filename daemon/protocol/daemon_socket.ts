/**
 * Which node daemon a call asks. The call stub is made from the same tables
 * (`scripts/compile/call_stub/`).
 *
 * @module
 */

/** The socket of a configuration that names none. */
export const DEFAULT_SOCKET = "/run/cni/daemon.sock";

/** Name of the socket in a directory that a configuration names. */
export const SOCKET_NAME = "/daemon.sock";

/** Returns the socket over which the daemons in a directory speak HTTP. */
export function httpSocketIn(directory: string): string {
  return `${directory.replace(/\/+$/, "")}/multus.sock`;
}

/** Keys of a configuration; others that differ in case are the same key. */
export const SocketKey = {
  /** Path of the socket; empty for none. */
  socket: "daemonSocket",
  /** Its directory, for {@linkcode DIRECTORY_PROGRAMS}. */
  directory: "daemonSocketDir",
} as const;

/** Programs that have {@linkcode SocketKey.directory}, and the directory if it is not there. */
export const DIRECTORY_PROGRAMS: Readonly<Record<string, string | undefined>> =
  {
    "multus": undefined,
    "chain": undefined,
    "multus-shim": "/run/multus",
  };

/** What each command needs in the environment. A call without it asks no daemon. */
export const NEEDED_VARIABLES = {
  "ADD": ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
  "CHECK": ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
  "DEL": ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"],
  "GC": ["CNI_PATH"],
  "STATUS": ["CNI_PATH"],
} as const;

/** Turns the daemon off for a call, whatever the value; but an empty one does not. */
export const NO_DAEMON = "CNI_NO_DAEMON";

/**
 * Reports whether a call may go to a node daemon.
 *
 * @param get Returns a variable of its environment
 */
export function isForDaemon(
  get: (name: string) => string | undefined,
): boolean {
  if (get(NO_DAEMON)) return false;
  const variables = Object.entries(NEEDED_VARIABLES)
    .find(([command]) => command === get("CNI_COMMAND"))?.[1];
  return variables?.every(get) ?? false;
}

/** Every key of a configuration in lower case; the last of several wins, and null is absent. */
export type ConfigKeys = ReadonlyMap<string, unknown>;

/** Reads the top level. The call itself reports what is wrong with the configuration. */
export function readKeys(stdin: Uint8Array): ConfigKeys {
  try {
    const text = new TextDecoder().decode(stdin);
    const entries = Object.entries(JSON.parse(text) ?? {})
      .filter(([, value]) => value !== null)
      .map(([key, value]): [string, unknown] => [key.toLowerCase(), value]);
    return new Map(entries);
  } catch {
    return new Map();
  }
}

/** Lists the sockets at which a daemon may listen, in the order to try them. */
export function listSockets(name: string, config: ConfigKeys): string[] {
  const socket = config.get(SocketKey.socket.toLowerCase());
  if (socket === "") return [];
  const directory = findDirectory(name, config);
  if (socket === undefined && directory === undefined) return [DEFAULT_SOCKET];
  const paths = [socket, directory && `${directory}${SOCKET_NAME}`];
  return paths.filter((path): path is string =>
    typeof path === "string" && path.startsWith("/")
  );
}

function findDirectory(name: string, config: ConfigKeys): string | undefined {
  if (!Object.hasOwn(DIRECTORY_PROGRAMS, name)) return undefined;
  const named = config.get(SocketKey.directory.toLowerCase());
  return typeof named === "string" && named !== ""
    ? named
    : DIRECTORY_PROGRAMS[name];
}

/** The file that turns a daemon off which has not answered; the daemon removes it. */
export function offFile(socket: string): string {
  return `${socket}${OFF}`;
}

/** What {@linkcode offFile} appends. */
export const OFF = ".off";

/** The file that says when calls waited for a daemon in vain; the daemon removes it. */
export function lossesFile(socket: string): string {
  return `${socket}${LOSSES}`;
}

/** What {@linkcode lossesFile} appends. */
export const LOSSES = ".losses";
