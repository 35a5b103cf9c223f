/**
 * Where to search, and what the searches of all kinds share.
 *
 * @module
 */

import { ifPossible, readFile } from "../../cni/files/io.ts";
import { isObject, parseJson } from "../../cni/json.ts";
import {
  AttachmentCache,
  type CachedAttachment,
  listConfFiles,
  NetworkRuntime,
  type NetworkRuntimeOptions,
} from "../../cni/libcni/mod.ts";
import type { Log } from "../../cni/log.ts";
import type { Invoker } from "../../cni/surroundings.ts";
import type { Evidence } from "./evidence.ts";

/** Where leftovers may be, and what removes them. */
export interface OrphanSearch
  extends Pick<NetworkRuntimeOptions, "env" | "pluginDirs"> {
  /** Path of the host's namespace. */
  readonly hostNetns: string;
  /** The runtimes' cache folder. */
  readonly cacheDir: string;
  /** The folder of configurations; they name folders with leases and records. */
  readonly confDir: string;
  /** Leftovers that are younger are kept, in ms. */
  readonly graceMs: number;
  /** Runs plugins of this project in this process. */
  readonly invoker: Invoker;
  readonly log: Log;
  readonly onStderr?: (text: string) => void;
  readonly signal?: AbortSignal;
}

/** Folders of state, by the plugin type that keeps it. */
export interface StateFolders {
  readonly leases: readonly string[];
  readonly tuning: readonly string[];
  readonly flannel: readonly string[];
  readonly multus: readonly string[];
  /** Sockets of DHCP daemons, with leases beside them. */
  readonly dhcpSockets: readonly string[];
}

/** A search under way. */
export interface Scene extends OrphanSearch {
  readonly evidence: Evidence;
  /** Gathers evidence again. */
  readonly renew: () => Evidence;
  readonly folders: StateFolders;
}

/** The keys that name folders, and the folders without them, by plugin type. */
const KEYS = {
  "host-local": ["dataDir", "/var/lib/cni/networks"],
  "tuning": ["dataDir", "/run/cni/tuning"],
  "flannel": ["dataDir", "/var/lib/cni/flannel"],
  "multus": ["cniDir", "/var/lib/cni/multus"],
  "dhcp": ["daemonSocketPath", "/run/cni/dhcp.sock"],
} as const;

/** Lists the folders that configurations name, and the default ones. */
export function listStateFolders(
  { confDir, cacheDir }: Pick<OrphanSearch, "confDir" | "cacheDir">,
): StateFolders {
  const files =
    ifPossible(() => listConfFiles(confDir, [".conflist", ".conf", ".json"])) ??
      [];
  const cached =
    ifPossible(() => new AttachmentCache(cacheDir).listAttachments()) ?? [];
  const texts = [
    ...files.map((file) => ifPossible(() => readFile(file))),
    ...cached.map(({ config }) => config),
  ];
  const found = texts.flatMap((text) =>
    text === undefined ? [] : findFolders(ifPossible(() => parseJson(text)))
  );
  const foldersOf = (type: keyof typeof KEYS): string[] => [
    ...new Set([
      KEYS[type][1],
      ...found.filter((one) => one.type === type).map(({ folder }) => folder),
    ]),
  ];
  return {
    leases: foldersOf("host-local"),
    tuning: foldersOf("tuning"),
    flannel: foldersOf("flannel"),
    multus: foldersOf("multus"),
    dhcpSockets: foldersOf("dhcp"),
  };
}

/** Finds the folders in a configuration, however deep plugins are nested. */
function findFolders(value: unknown): { type: string; folder: string }[] {
  if (Array.isArray(value)) return value.flatMap(findFolders);
  if (!isObject(value)) return [];
  const { type } = value;
  const key = Object.entries(KEYS).find(([name]) => name === type)?.[1][0];
  const folder = key === undefined ? undefined : value[key];
  const own = typeof folder === "string" && folder.startsWith("/")
    ? [{ type: String(type), folder }]
    : [];
  return [...own, ...Object.values(value).flatMap(findFolders)];
}

/** Lists the folders with caches of attachments: the runtimes' and multus'. */
export function listCacheFolders(
  { cacheDir }: Pick<OrphanSearch, "cacheDir">,
  { multus }: StateFolders,
): string[] {
  return [...new Set([cacheDir, ...multus])];
}

/** Lists the cached attachments of several folders. */
export function listCached(folders: readonly string[]): CachedAttachment[] {
  return folders.flatMap((folder) =>
    new AttachmentCache(folder).listAttachments()
  );
}

/** Creates a runtime on a cache folder. It takes no locks: the remover holds them. */
export function createRuntime(
  { env, pluginDirs, invoker, hostNetns, onStderr }: OrphanSearch,
  cacheDir: string,
): NetworkRuntime {
  return new NetworkRuntime({
    env,
    pluginDirs,
    cacheDir,
    hostNetns,
    invoker,
    ...onStderr && { onStderr },
  });
}

/** Lists a folder's files; empty if it does not exist. */
export function listFiles(folder: string): { name: string; since: Date }[] {
  const entries = ifPossible(() => [...Deno.readDirSync(folder)]) ?? [];
  return entries.filter(({ isFile }) => isFile).flatMap(({ name }) => {
    const since = ifPossible(() => Deno.statSync(`${folder}/${name}`).mtime);
    return since ? [{ name, since }] : [];
  }).sort((left, right) => left.name < right.name ? -1 : 1);
}
