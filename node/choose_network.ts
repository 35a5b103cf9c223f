/**
 * Choosing the network that a node's pods are attached to.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { type CniError, ErrorCode, toCniError } from "../base/error.ts";
import { deadline } from "../base/deadline.ts";
import { ifPossible } from "../base/files/io.ts";
import {
  type FoundNetwork,
  listConfFiles,
  type NetworkConfList,
  type NetworkRuntime,
  readNetworks,
} from "../libcni/mod.ts";
import type { FileStamps } from "../base/files/file_stamps.ts";

export interface NetworkSource {
  /** The directory with the networks' configurations. */
  readonly confDir: string;
  /** Directories with plugins, in the order in which they are searched. */
  readonly pluginDirs: readonly string[];
  /** Asks the plugins for their versions. */
  readonly runtime: Pick<NetworkRuntime, "validateNetworkList">;
  /** The loopback's network, if pods have one. */
  readonly loopback: NetworkConfList | undefined;
}

/** A file that sorts before the default network's and cannot be used. */
export interface SkippedFile {
  /** The file, or the directory if the directory cannot be read. */
  readonly path: string;
  /** Why it cannot be used. */
  readonly error: CniError;
}

/** A network that can be used. */
export interface UsableNetwork extends FoundNetwork {
  /** The capabilities that its plugins declare. */
  readonly capabilities: readonly string[];
}

interface Search {
  /** The first network that can be used. */
  readonly network: UsableNetwork | undefined;
  /** The first that can be read. Good enough for tearing pods down. */
  readonly readable: NetworkConfList | undefined;
  /** Why the files before it cannot be used, in order. */
  readonly skipped: readonly SkippedFile[];
  /** Whether a retry may give another answer although no file has changed. */
  readonly isTransient: boolean;
}

export interface NetworkChoice extends Search {
  /** Why the loopback plugin cannot be used. */
  readonly loopbackError: CniError | undefined;
}

/**
 * Chooses the first usable network, in alphabetical order of the files: it can be
 * read, and all of its plugins exist and support its version. Never throws.
 *
 * Source: kubelet pkg/kubelet/dockershim/network/cni/cni.go
 * `getDefaultCNINetwork`.
 *
 * @param stamps Receives the stamps of all files that the choice depends on
 */
export async function chooseNetwork(
  source: NetworkSource,
  stamps: FileStamps,
): Promise<NetworkChoice> {
  const { confDir, pluginDirs, loopback } = source;
  stamps.add([...listConfPaths(confDir), ...pluginDirs]);
  const [search, validation] = await Promise.all([
    searchDirectory(source, stamps),
    loopback && validate(source, loopback, stamps),
  ]);
  const loopbackError = validation?.error;
  const isTransient = search.isTransient || loopbackError !== undefined;
  return { ...search, loopbackError, isTransient };
}

async function searchDirectory(
  source: NetworkSource,
  stamps: FileStamps,
): Promise<Search> {
  const skipped: SkippedFile[] = [];
  let readable: NetworkConfList | undefined;
  let isTransient = false;
  const networks = readDirectory(source.confDir, (path, error) => {
    skipped.push({ path, error });
    isTransient ||= error.code === ErrorCode.IoFailure;
  });
  for (const found of networks) {
    readable ??= found.list;
    const { capabilities, error } = await validate(source, found.list, stamps);
    if (error === undefined) {
      const network = { ...found, capabilities };
      return { network, readable, skipped, isTransient };
    }
    skipped.push({ path: found.path, error });
    isTransient = true;
  }
  return { network: undefined, readable, skipped, isTransient };
}

/** Reads the networks of a directory. Skips a network that cannot be read. */
function* readDirectory(
  directory: string,
  onSkipped: (path: string, error: CniError) => void,
): Generator<FoundNetwork> {
  try {
    yield* readNetworks(directory, onSkipped);
  } catch (error) {
    onSkipped(directory, toCniError(error));
  }
}

/** How long the plugins of one network may take to report their versions. */
const VALIDATION_TIMEOUT_MS = 30_000;

/** The answers of a network's plugins. */
interface Validation {
  readonly capabilities: readonly string[];
  readonly error?: CniError;
}

async function validate(
  { pluginDirs, runtime }: NetworkSource,
  list: NetworkConfList,
  stamps: FileStamps,
): Promise<Validation> {
  stamps.add(
    list.plugins
      .filter(({ type }) => !type.includes("/"))
      .flatMap(({ type }) =>
        pluginDirs.map((directory) => join(directory, type))
      ),
  );
  // Many callers may wait for this one, so no caller's signal ends it.
  const signal = deadline(VALIDATION_TIMEOUT_MS);
  try {
    return {
      capabilities: await runtime.validateNetworkList(list, { signal }),
    };
  } catch (error) {
    return { capabilities: [], error: toCniError(error) };
  }
}

/**
 * Lists the paths to watch for changes: the directory, its files, and the
 * directories next to the files, which can contain further plugins.
 */
function listConfPaths(confDir: string): string[] {
  const directories = listUnlessUnreadable(() =>
    [...Deno.readDirSync(confDir)].map(({ name }) => join(confDir, name))
  );
  return [
    confDir,
    ...listUnlessUnreadable(() =>
      listConfFiles(confDir, [".conflist", ".conf", ".json"])
    ),
    ...directories.flatMap((path) =>
      listUnlessUnreadable(() => [path, ...listConfFiles(path, [".conf"])])
    ),
  ];
}

/** Most names in the directory are files, not directories. */
function listUnlessUnreadable(list: () => string[]): string[] {
  return ifPossible(list) ?? [];
}
