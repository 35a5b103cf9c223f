/**
 * The processes and network namespaces of this machine.
 *
 * @module
 */

import { yieldToEventLoop } from "../../../base/deadline.ts";
import { ifPossible } from "../../../base/files/io.ts";
import { fileIdOf, findFileId } from "../../../base/files/same_file.ts";
import { isMissingNetns } from "../../../ffi/netns.ts";
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
  readonly plugins: readonly RunningPlugin[];
  /**
   * The roots of other mount namespaces in which namespaces are mounted: the
   * host's as a container sees it, or a runtime's whose service has its own.
   */
  readonly roots: readonly string[];
  /** Command lines and control groups, in which runtimes name containers. */
  readonly texts: readonly string[];
  /**
   * Whether these are all processes of the node: there are kernel threads or a
   * container runtime among them. In a pod with a PID namespace of its own, those of
   * other pods are hidden.
   */
  readonly areAll: boolean;
}

/** Names of kernel threads and container runtimes, cut to the kernel's 15 bytes. */
const OF_NODES =
  /^(kthreadd|containerd(-.*)?|dockerd|crio|conmon(rs)?|kubelet|kubelite|k3s(-.*)?|k0s|podman|nerdctl)$/;

/**
 * Reads what the processes show, other than this one. Lets the event loop run.
 *
 * @throws {Error} If some may not be looked at
 */
export async function readProcesses(): Promise<Processes> {
  let areAll = false;
  const namespaces = new Map<string, string>();
  const plugins: RunningPlugin[] = [], texts: string[] = [];
  const mounts = new Map([[findFileId("/proc/self/ns/mnt"), "/proc/self"]]);
  for (const name of listPids()) {
    await yieldToEventLoop();
    const path = `/proc/${name}/ns/net`;
    const id = findIdOrRefuse(path);
    if (id !== undefined && !namespaces.has(id)) namespaces.set(id, path);
    for (const held of listHeld(`/proc/${name}/fd`)) {
      const heldId = findFileId(held);
      if (heldId !== undefined && !namespaces.has(heldId)) {
        namespaces.set(heldId, held);
      }
    }
    if (Number(name) === Deno.pid) continue;
    const mountId = findFileId(`/proc/${name}/ns/mnt`);
    if (!mounts.has(mountId)) mounts.set(mountId, `/proc/${name}`);
    texts.push(readOf(name, "cmdline"), readOf(name, "cgroup"));
    areAll ||= OF_NODES.test(readOf(name, "comm").trimEnd());
    const plugin = findPlugin(name);
    if (plugin !== undefined) plugins.push({ ...plugin, namespaceId: id });
  }
  const roots: string[] = [], mounted = new Map<string, string>();
  for (const directory of mounts.values()) {
    const root = directory === "/proc/self" ? "" : `${directory}/root`;
    const points = listMounted(directory);
    if (root !== "" && points.length > 0) roots.push(root);
    for (const point of points) {
      const id = findFileId(root + point);
      if (id !== undefined && !mounted.has(id)) mounted.set(id, root + point);
    }
  }
  // A mount outlives the processes in its namespace.
  const all = new Map([...namespaces, ...mounted]);
  return { namespaces: all, roots, plugins, texts, areAll };
}

/**
 * Lists the plugins that are running, of all processes that this one may look at. Lets
 * the event loop run.
 */
export async function listRunningPlugins(): Promise<RunningPlugin[]> {
  const plugins: RunningPlugin[] = [];
  for (const name of listPids()) {
    await yieldToEventLoop();
    const plugin = Number(name) === Deno.pid ? undefined : findPlugin(name);
    if (plugin === undefined) continue;
    const namespaceId = findFileId(`/proc/${name}/ns/net`);
    plugins.push({ ...plugin, namespaceId });
  }
  return plugins;
}

/** Returns what the environment of a process says of a plugin's call, if it is one. */
function findPlugin(
  pid: string,
): Pick<RunningPlugin, "command" | "container"> | undefined {
  const environment = `\0${readOf(pid, "environ")}`;
  const command = /\0CNI_COMMAND=([^\0]+)/.exec(environment)?.[1];
  const container = /\0CNI_CONTAINERID=([^\0]+)/.exec(environment)?.[1];
  return command === undefined || container === undefined
    ? undefined
    : { command, container };
}

/** Reads a file of a process; empty if that is not possible. */
function readOf(pid: string, file: string): string {
  return ifPossible(() => Deno.readTextFileSync(`/proc/${pid}/${file}`)) ?? "";
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

/** Lists the descriptors with which a process holds network namespaces. */
function listHeld(directory: string): string[] {
  const entries = ifPossible(() => [...Deno.readDirSync(directory)]) ?? [];
  return entries.map(({ name }) => `${directory}/${name}`).filter((path) =>
    ifPossible(() => Deno.readLinkSync(path))?.startsWith("net:[")
  );
}

/** Lists the paths at which a process has namespaces mounted. */
function listMounted(directory: string): string[] {
  const table = ifPossible(() =>
    Deno.readTextFileSync(`${directory}/mountinfo`)
  );
  return (table ?? "").split("\n").flatMap((line) => {
    const [, , , root = "", point = ""] = line.split(" ");
    if (!root.startsWith("net:[")) return [];
    return point.replaceAll(
      /\\(\d{3})/g,
      (_, octal) => String.fromCharCode(parseInt(octal, 8)),
    );
  });
}

/**
 * Lists the addresses in all namespaces but the host's.
 *
 * @throws {SyscallError} If a namespace cannot be entered
 */
export async function listNamespaceAddresses(
  namespaces: Processes["namespaces"],
  hostId: string | undefined,
): Promise<Ip[]> {
  const addresses: Ip[] = [];
  for (const [id, path] of namespaces) {
    await yieldToEventLoop();
    if (id !== hostId) addresses.push(...listAddresses(id, path));
  }
  return addresses;
}

function listAddresses(id: string, path: string): Ip[] {
  try {
    using rtnl = Rtnl.open(path);
    return rtnl.address.list().map(({ address }) => address.ip)
      .filter((ip) => !ip.isLoopback);
  } catch (error) {
    // It has ended since; a descriptor may be of another file by now.
    if (isMissingNetns(error) || findFileId(path) !== id) return [];
    throw error;
  }
}
