/**
 * Where to search, and what the searches of all kinds share.
 *
 * @module
 */

import { ifPossible, readFile } from "../../base/files/io.ts";
import {
  findValue,
  isObject,
  type JsonObject,
  parseJson,
} from "../../base/json/json.ts";
import {
  AttachmentCache,
  listConfFiles,
  type NetworkRuntimeOptions,
} from "../../libcni/mod.ts";
import type { OrphanSearch, PluginOrphans } from "../../metadata/orphans.ts";
import type { Log } from "../../base/log/log.ts";
import type { Invoker } from "../../cni/call/context.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";
import type { NodeEvidence } from "../../plugins/parts/evidence/evidence.ts";

/** Where to search for orphans, and how to remove them. */
export interface OrphanSearchOptions
  extends Pick<NetworkRuntimeOptions, "env" | "pluginDirs"> {
  /** Path of the host's namespace. */
  readonly hostNetns: string;
  /** The runtimes' cache directory. */
  readonly cacheDir: string;
  /** The directory of configurations; they name directories with leases and records. */
  readonly confDir: string;
  /** Orphans that are younger are kept, in ms. */
  readonly graceMs: number;
  /** Further configurations that name directories; none if undefined. */
  readonly confs?: readonly Uint8Array[];
  /** Whether no user waits for the outcome; the search then tries to lock the caches once. */
  readonly isAutomatic?: boolean;
  /** Runs plugins of this project in this process. */
  readonly invoker: Invoker;
  readonly log: Log;
  readonly onStderr?: (text: string) => void;
  readonly signal?: AbortSignal;
}

/** Where plugins keep state, by type. */
export type StatePlaces = ReadonlyMap<string, readonly string[]>;

/** A search that runs. */
export interface Scene
  extends OrphanSearchOptions, Omit<OrphanSearch, "places"> {
  readonly evidence: NodeEvidence;
  /** The directories with caches of attachments: the runtimes' and multus'. */
  readonly caches: readonly string[];
}

/** What plugins leave, by type. */
export type OrphansByType = ReadonlyMap<string, PluginOrphans>;

/** Loads what the plugins of this project leave. */
export async function loadPluginOrphans(): Promise<OrphansByType> {
  const byType = new Map<string, PluginOrphans>();
  for (const [type, { orphans }] of METADATA) {
    if (orphans !== undefined) byType.set(type, await orphans());
  }
  return byType;
}

/** Where configurations are. */
type ConfPlaces = Pick<OrphanSearchOptions, "confDir" | "cacheDir" | "confs">;

/** Reads the configurations, including those of attachments, one after the other. */
export function* readConfs(places: ConfPlaces): Generator<unknown> {
  for (const text of readTexts(places)) {
    if (text !== undefined) yield ifPossible(() => parseJson(text));
  }
}

function* readTexts(
  { confDir, cacheDir, confs = [] }: ConfPlaces,
): Generator<Uint8Array | undefined> {
  const files = ifPossible(() =>
    listConfFiles(confDir, [".conflist", ".conf", ".json"])
  );
  for (const file of files ?? []) yield ifPossible(() => readFile(file));
  const cached = ifPossible(() =>
    new AttachmentCache(cacheDir).eachAttachment()
  );
  for (const { config } of cached ?? []) yield config;
  yield* confs;
}

/** Lists the places that configurations name, and the default places. */
export function listStatePlaces(
  search: ConfPlaces,
  pluginOrphans: OrphansByType,
): StatePlaces {
  const places = new Map(
    [...pluginOrphans].flatMap(([type, { state }]) =>
      state === undefined
        ? []
        : [[type, { key: state.key, paths: new Set([state.usual]) }] as const]
    ),
  );
  for (const plugin of readConfs(search).flatMap(listNestedPlugins)) {
    const type = String(findValue(plugin, "type"));
    const { key = "", paths } = places.get(type) ?? {};
    const path = findValue(plugin, key);
    if (typeof path === "string" && path.startsWith("/")) paths?.add(path);
  }
  return new Map(
    places.entries().map(([type, { paths }]) => [type, [...paths]]),
  );
}

/** Lists the plugins in a configuration, however deep they are nested. */
export function listNestedPlugins(value: unknown): JsonObject[] {
  if (Array.isArray(value)) return value.flatMap(listNestedPlugins);
  if (!isObject(value)) return [];
  const isPlugin = typeof findValue(value, "type") === "string";
  const own = isPlugin ? [value as JsonObject] : [];
  return [...own, ...Object.values(value).flatMap(listNestedPlugins)];
}

/** Lists the directories with caches of attachments: the runtimes' and multus'. */
export function listCacheDirectories(
  { cacheDir }: Pick<OrphanSearchOptions, "cacheDir">,
  pluginOrphans: OrphansByType,
  places: StatePlaces,
): string[] {
  const own = [...pluginOrphans].flatMap(([type, { state }]) =>
    state?.isCache ? places.get(type) ?? [] : []
  );
  return [...new Set([cacheDir, ...own])];
}
