/**
 * The master network: the network that a node's pods would get without multus.
 *
 * @module
 */

import { basename } from "@std/path/posix";
import { checkNetworkName } from "../../../cni/call/args.ts";
import { CniError, ErrorCode } from "../../../base/error.ts";
import { withIoFailure } from "../../../base/files/io.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import {
  listCapabilities,
  type NetworkConf,
  type NetworkConfList,
} from "../../../libcni/conf.ts";
import { parseDocument } from "../../../libcni/conf_document.ts";
import {
  listConfFiles,
  readNetworkConf,
  readNetworkConfList,
} from "../../../libcni/conf_files.ts";
import { isList, isOwnConf } from "../model/delegate.ts";
import type { ConfigurationOptions } from "./options.ts";

/** A network's configuration, in the form that the runtime would use. */
export interface Master {
  /** Name of its file, without {@linkcode RENAMED}. */
  readonly file: string;
  /** Its current path. */
  readonly path: string;
  /** The whole document; a list includes the plugins from separate files. */
  readonly document: JsonObject;
  /** The network's name. */
  readonly name: string;
  /** The capabilities that its plugins request, in alphabetical order. */
  readonly capabilities: readonly string[];
}

/** The suffix that `--rename-conf-file` appends to a file's name. */
export const RENAMED = ".old";

const EXTENSIONS = [".conf", ".conflist", ".json"];

/** Options of the search. */
export type MasterOptions = Pick<
  ConfigurationOptions,
  "masterDirectory" | "masterFile" | "renamesMaster"
>;

/** A file that may have the master network's configuration. */
type Candidate = Pick<Master, "file" | "path">;

/**
 * Finds the master network: the first file in alphabetical order that
 * configures a network, and not multus, whatever its name.
 *
 * Like runtimes, it skips unusable files. A file that was chosen by name or
 * earlier is not skipped, because its owner is probably rewriting it.
 *
 * @param current The file that was chosen earlier
 * @param onSkipped Receives each skipped file, and the reason
 * @returns Undefined if not found
 * @throws {CniError} 5, 6 or 7 if the chosen file is unusable
 */
export function findMaster(
  options: MasterOptions,
  current?: string,
  onSkipped: (path: string, error: unknown) => void = () => {},
): Master | undefined {
  for (const candidate of listCandidates(options)) {
    const { file, path } = candidate;
    try {
      const master = readMaster(candidate);
      if (master !== undefined) return master;
      if (file === options.masterFile) throw ownAsMaster(path);
    } catch (error) {
      if (file === options.masterFile || file === current) throw error;
      onSkipped(path, error);
    }
  }
  return undefined;
}

function ownAsMaster(path: string): CniError {
  return new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot use "${path}" as master network: it is multus itself`,
  );
}

/** Lists the files in the order of their original names. */
function listCandidates(options: MasterOptions): Candidate[] {
  const { masterDirectory, masterFile, renamesMaster } = options;
  const found = listConfFiles(masterDirectory, EXTENSIONS)
    .map((path) => ({ file: basename(path), path }));
  const names = found.map(({ file }) => file);
  const renamed = renamesMaster
    ? listRenamed(masterDirectory).filter(({ file }) => !names.includes(file))
    : [];
  return [...found, ...renamed]
    .filter(({ file }) => masterFile === undefined || file === masterFile)
    .sort((left, right) => left.file < right.file ? -1 : 1);
}

function listRenamed(directory: string): Candidate[] {
  return listConfFiles(directory, [RENAMED])
    .map((path) => ({ file: basename(path, RENAMED), path }))
    .filter(({ file }) =>
      EXTENSIONS.some((extension) => file.endsWith(extension))
    );
}

/**
 * Reads a file; its content decides its format, not its extension.
 *
 * @returns Undefined if it configures multus
 */
function readMaster(candidate: Candidate): Master | undefined {
  const conf = readConf(candidate.path);
  if (isOwnConf(conf)) return undefined;
  checkNetworkName(conf.name);
  const plugins = isList(conf) ? conf.plugins : [conf.plugin];
  return {
    ...candidate,
    document: parseDocument("configuration", conf.bytes),
    name: conf.name,
    capabilities: listCapabilities(plugins).sort(),
  };
}

/**
 * Reads a network's configuration or list; the file's name does not tell which.
 *
 * Source: multus-cni cmd/thin_entrypoint/main.go `createMultusConfig`.
 *
 * @throws {CniError} 5 if it cannot be read, 6 or 7 if it is malformed
 */
export function readConf(path: string): NetworkConf | NetworkConfList {
  const bytes = withIoFailure(`read "${path}"`, () => Deno.readFileSync(path));
  const { plugins, type } = parseDocument("configuration", bytes);
  const isBare = plugins === undefined && type !== undefined;
  return isBare ? readNetworkConf(path) : readNetworkConfList(path);
}
