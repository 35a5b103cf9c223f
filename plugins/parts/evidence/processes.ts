/**
 * The processes and network namespaces of this machine.
 *
 * Any user can start processes and create namespaces with any content. So only a part
 * of each is read, and no file is opened that is not a namespace.
 *
 * @module
 */

import { yieldToEventLoop } from "../../../base/deadline.ts";
import { describeError } from "../../../base/error.ts";
import { ifPossible } from "../../../base/files/io.ts";
import { fileIdOf, findFileId } from "../../../base/files/same_file.ts";
import {
  copyText,
  readLines,
  readStart,
} from "../../../base/process/process_files.ts";
import { isErrno } from "../../../ffi/errno.ts";
import { unescapePath } from "../../../ffi/file/file_system.ts";
import { isMissingNetns } from "../../../ffi/netns.ts";
import { OWN_NETNS } from "../../../ffi/own_netns.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { Ip } from "../../../net/ip.ts";

/** A CNI plugin that is running. */
export interface RunningPlugin {
  readonly command: string;
  /** The ID of the container for which it runs. */
  readonly container: string;
  /** The namespace in which it runs. */
  readonly namespaceId: string | undefined;
}

/** A view of this machine's processes. */
export interface Processes {
  /** A path of each network namespace, by the namespace's device and inode. */
  readonly namespaces: ReadonlyMap<string, string>;
  /**
   * The paths of {@linkcode namespaces} that an operator can use: `/proc/PID/ns/net`, or
   * a mount in this process's mount namespace. At a path of a descriptor or of another
   * mount namespace, a process can put any file.
   */
  readonly usable: ReadonlyMap<string, string>;
  readonly plugins: readonly RunningPlugin[];
  /**
   * The roots of other mount namespaces in which namespaces are mounted: the
   * host's as a container sees it, or a runtime's whose service has its own.
   */
  readonly roots: readonly string[];
  /**
   * Words of command lines and control groups, in which runtimes name containers, if
   * they have at least {@linkcode LONG_ID} characters.
   */
  readonly words: ReadonlySet<string>;
  /**
   * Whether these are all processes of the node: there are kernel threads or a
   * container runtime among them. In a pod with a PID namespace of its own, those of
   * other pods are hidden.
   */
  readonly areAll: boolean;
  /** What was too much to be read; undefined if nothing was. */
  readonly unread: string | undefined;
}

/** The addresses in namespaces. */
export interface NamespaceAddresses {
  readonly ips: readonly Ip[];
  /** What could not be read; undefined if all was. */
  readonly unread: string | undefined;
}

/** Processes name a container by its ID if that has so many characters. */
export const LONG_ID = 12;

/** Names of kernel threads and container runtimes, cut to the kernel's 15 bytes. */
const OF_NODES =
  /^(kthreadd|containerd(-.*)?|dockerd|crio|conmon(rs)?|kubelet|kubelite|k3s(-.*)?|k0s|podman|nerdctl)$/;

/** Words that can contain the ID of a container. */
const WORD = new RegExp(`[\\w.-]{${LONG_ID},}`, "g");

/**
 * How many characters all words may have together. A node with 1 000 containers has
 * about 300 000.
 */
const MOST_CHARACTERS = 8 * 1024 * 1024;
/** How much is read of an environment, to whose end runtimes add their variables. */
const MOST_ENVIRONMENT = 1024 * 1024;
/** How many names of descriptors are listed together. */
const MOST_NAMES = 16_384;
/** How much is read of the mounts of one namespace, and of all, in bytes. */
const MOST_MOUNTS = 16 * 1024 * 1024, MOST_MOUNTS_IN_ALL = 16 * MOST_MOUNTS;

/**
 * Reads what the processes show, other than this one. Lets the event loop run.
 *
 * @throws {Error} If some may not be looked at
 */
export async function readProcesses(): Promise<Processes> {
  let areAll = false, characters = 0;
  const entered = new Map<string, string>(), held = new Map<string, string>();
  const plugins: RunningPlugin[] = [], words = new Set<string>();
  const mounts = new Map([[findFileId("/proc/self/ns/mnt"), "/proc/self"]]);
  for (const name of listPids()) {
    await yieldToEventLoop();
    const path = `/proc/${name}/ns/net`;
    const id = findIdOrRefuse(path);
    if (id !== undefined && !entered.has(id)) entered.set(id, path);
    const status = readStart(`/proc/${name}/status`);
    for (const path of listDescriptors(name, status)) {
      await yieldToEventLoop();
      const heldId = findHeldId(path);
      if (heldId !== undefined && !held.has(heldId)) held.set(heldId, path);
    }
    if (Number(name) === Deno.pid) continue;
    for (const file of ["cmdline", "cgroup"]) {
      for (const [word] of readStart(`/proc/${name}/${file}`).matchAll(WORD)) {
        if (characters > MOST_CHARACTERS || words.has(word)) continue;
        characters += word.length;
        words.add(copyText(word));
      }
    }
    areAll ||= OF_NODES.test(/^Name:\t(.*)$/m.exec(status)?.[1] ?? "");
    if (!isTrusted(status)) continue;
    const mountId = findFileId(`/proc/${name}/ns/mnt`);
    if (!mounts.has(mountId)) mounts.set(mountId, `/proc/${name}`);
    const plugin = findPlugin(name);
    if (plugin !== undefined) plugins.push({ ...plugin, namespaceId: id });
  }
  const { mounted, roots, areAllRead } = await readMounts(mounts.values());
  const unread = characters > MOST_CHARACTERS
    ? "the command lines of all processes are too long"
    : areAllRead
    ? undefined
    : "there are too many mounts";
  // A mount outlives the processes in its namespace.
  const namespaces = new Map([...held, ...entered, ...mounted]);
  const own = [...mounted].filter(([, path]) => !path.startsWith("/proc/"));
  const usable = new Map([...entered, ...own]);
  return { namespaces, usable, roots, plugins, words, areAll, unread };
}

/**
 * Lists the plugins that are running, of all processes that this one may look at. Lets
 * the event loop run.
 */
export async function listRunningPlugins(): Promise<RunningPlugin[]> {
  const plugins: RunningPlugin[] = [];
  for (const name of listPids()) {
    await yieldToEventLoop();
    if (Number(name) === Deno.pid) continue;
    if (!isTrusted(readStart(`/proc/${name}/status`))) continue;
    const plugin = findPlugin(name);
    if (plugin === undefined) continue;
    const namespaceId = findFileId(`/proc/${name}/ns/net`);
    plugins.push({ ...plugin, namespaceId });
  }
  return plugins;
}

/**
 * Reports whether root or the user of this process runs a process. Any other user can
 * give a process the environment of a plugin, also a program that becomes root, such as
 * `su`, and can mount anything in a mount namespace.
 *
 * @param status The process's file `status` in /proc. The IDs are those of this process's
 *   user namespace
 * @param uid The user of this process
 */
export function isTrusted(status: string, uid = Deno.uid()): boolean {
  const [, ...ids] = /^Uid:\t(\d+)\t(\d+)\t(\d+)\t(\d+)$/m.exec(status) ?? [];
  return ids.length > 0 &&
    [0, uid].some((trusted) => ids.every((id) => Number(id) === trusted));
}

/**
 * Returns what the environment of a process says of a plugin's call, if it is one. No
 * runtime can cache an attachment of a container with a longer ID.
 */
function findPlugin(
  pid: string,
): Pick<RunningPlugin, "command" | "container"> | undefined {
  const text = readStart(`/proc/${pid}/environ`, MOST_ENVIRONMENT);
  const find = (name: string): string | undefined =>
    new RegExp(`(?:^|\0)${name}=([^\0]{1,255})(?:\0|$)`).exec(text)?.[1];
  const command = find("CNI_COMMAND"), container = find("CNI_CONTAINERID");
  return command === undefined || container === undefined
    ? undefined
    : { command: copyText(command), container: copyText(container) };
}

function listPids(): string[] {
  return [...Deno.readDirSync("/proc")].map(({ name }) => name)
    .filter((name) => /^\d+$/.test(name));
}

/** Returns undefined for a process that has ended. */
function findIdOrRefuse(path: string): string | undefined {
  try {
    return fileIdOf(Deno.statSync(path));
  } catch (cause) {
    const isRefused = cause instanceof Deno.errors.PermissionDenied ||
      cause instanceof Deno.errors.NotCapable;
    // The first process is not in a container's namespace. It may have
    // capabilities that root lacks.
    if (!isRefused || path === "/proc/1/ns/net") return undefined;
    throw new Error(
      "Cannot determine which containers were deleted: processes of other " +
        "users are hidden; run it as root",
      { cause },
    );
  }
}

/**
 * Lists the paths of a process's descriptors. A list of half a million names would take
 * 100 MiB: those of large tables are counted instead, also numbers that are not open.
 *
 * @param status The process's file in /proc
 */
function* listDescriptors(pid: string, status: string): Generator<string> {
  const directory = `/proc/${pid}/fd`;
  const slots = Number(/^FDSize:\t(\d+)$/m.exec(status)?.[1] ?? 0);
  if (slots > MOST_NAMES) {
    for (let fd = 0; fd < slots; fd++) yield `${directory}/${fd}`;
    return;
  }
  for (const { name } of ifPossible(() => Deno.readDirSync(directory)) ?? []) {
    yield `${directory}/${name}`;
  }
}

/** Returns the network namespace that a descriptor of a process holds, if it is one. */
function findHeldId(path: string): string | undefined {
  const name = ifPossible(() => Deno.readLinkSync(path)) ?? "";
  return name.startsWith("net:[") ? idOf(name) : undefined;
}

/** Returns the device and inode of a namespace that the kernel names `net:[INODE]`. */
function idOf(name: string): string {
  return `${Deno.statSync(OWN_NETNS).dev}:${name.slice(5, -1)}`;
}

/** The network namespaces that are mounted in mount namespaces. */
interface Mounts {
  /** A path of each, by its device and inode. */
  readonly mounted: ReadonlyMap<string, string>;
  /** The roots of other mount namespaces that have some. */
  readonly roots: readonly string[];
  /** Whether the limits sufficed. */
  readonly areAllRead: boolean;
}

/** @param directories A process in each mount namespace */
async function readMounts(directories: Iterable<string>): Promise<Mounts> {
  const roots: string[] = [], mounted = new Map<string, string>();
  let left = MOST_MOUNTS_IN_ALL, areAllRead = true;
  for (const directory of directories) {
    const root = directory === "/proc/self" ? "" : `${directory}/root`;
    let hasAny = false;
    const most = Math.min(MOST_MOUNTS, left);
    const read = await readLines(`${directory}/mountinfo`, most, (line) => {
      const [, , , name = "", point = ""] = line.split(" ", 5);
      if (!name.startsWith("net:[")) return;
      hasAny = true;
      const id = copyText(idOf(name));
      const path = copyText(root + unescapePath(point));
      // What is mounted over it has another ID.
      if (!mounted.has(id) && findFileId(path) === id) mounted.set(id, path);
    });
    if (root !== "" && hasAny) roots.push(root);
    left -= read;
    if (read >= most) areAllRead = false;
  }
  return { mounted, roots, areAllRead };
}

/**
 * Lists the addresses in all namespaces but the host's. Lets the event loop run.
 *
 * @param most How many addresses are read
 * @throws {SyscallError} setns: EPERM if this process may not enter namespaces
 */
export async function listNamespaceAddresses(
  namespaces: Processes["namespaces"],
  hostId: string | undefined,
  most = 262_144,
): Promise<NamespaceAddresses> {
  const ips: Ip[] = [];
  let unread: string | undefined;
  for (const [id, path] of namespaces) {
    await yieldToEventLoop();
    if (id === hostId) continue;
    try {
      for (const ip of listAddresses(path)) ips.push(ip);
    } catch (error) {
      // It has ended since; a descriptor may be of another file by now.
      if (isMissingNetns(error) || findFileId(path) !== id) continue;
      if (isErrno(error, "EPERM")) throw error;
      unread = `cannot read the addresses in "${path}": ${
        describeError(error)
      }`;
    }
    if (ips.length <= most) continue;
    return { ips, unread: `namespaces have more than ${most} addresses` };
  }
  return { ips, unread };
}

function listAddresses(path: string): Ip[] {
  using rtnl = Rtnl.openUntrusted(path);
  return rtnl.address.list().map(({ address }) => address.ip)
    .filter((ip) => !ip.isLoopback);
}
