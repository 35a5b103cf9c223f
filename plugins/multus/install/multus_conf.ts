/**
 * Generates the configuration of multus from the master network's configuration.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import { encodeJson } from "../../../base/json/json_bytes.ts";
import {
  CURRENT_VERSION,
  isAtLeast,
  isSpecVersion,
} from "../../../cni/version.ts";
import type { ConfigurationOptions } from "./options.ts";
import { basename } from "@std/path/posix";
import { checkNetworkName } from "../../../cni/call/args.ts";
import { withIoFailure } from "../../../base/files/io.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import {
  listCapabilities,
  type NetworkConf,
  type NetworkConfList,
  parseDocument,
} from "../../../libcni/conf.ts";
import {
  listConfFiles,
  readNetworkConf,
  readNetworkConfList,
} from "../../../libcni/conf_files.ts";
import { isList, isOwnConf } from "../model/delegate.ts";

/** The two possible names of our configuration. */
export const FILE_NAMES = ["00-multus.conf", "00-multus.conflist"] as const;

/** A configuration of multus. */
export interface MultusConf {
  readonly fileName: typeof FILE_NAMES[number];
  readonly content: string;
}

/** The options that affect the content. */
export type MultusConfOptions = Pick<
  ConfigurationOptions,
  "cniVersion" | "forcesVersion" | "takesName" | "keys"
>;

/**
 * Formats the configuration exactly like the reference: for 1.0.0 and later as a
 * list, with the master network inside.
 *
 * Source: multus-cni cmd/thin_entrypoint/main.go `multusConflistTemplate`,
 * `multusConfTemplate`.
 *
 * @throws {CniError} 1 if the master network's version is unsupported or differs from
 * the required version, 7 if it has none
 */
export function formatMultusConf(
  master: Master,
  options: MultusConfOptions,
): MultusConf {
  const cniVersion = chooseVersion(master, options);
  const name = options.takesName ? master.name : "multus-cni-network";
  const delegate = new TextDecoder().decode(encodeJson(
    options.forcesVersion
      ? { ...master.document, cniVersion }
      : master.document,
  ));
  const keys = [
    ["type", "multus"],
    ...master.capabilities.length === 0 ? [] : [describeCapabilities(master)],
    ...Object.entries(options.keys),
  ];
  const head: Member[] = [["cniVersion", cniVersion], ["name", name]];
  // Plugins from separate files are already included. With the network's name, the
  // runtime would load those files as well.
  const hasAll = master.document["loadOnlyInlinedPlugins"] === true;
  if (options.takesName && hasAll) head.push(["loadOnlyInlinedPlugins", true]);
  return isAtLeast(cniVersion, "1.0.0")
    ? {
      fileName: "00-multus.conflist",
      content: formatList(head, keys, delegate),
    }
    : {
      fileName: "00-multus.conf",
      content: formatBare([...head, ...keys], delegate),
    };
}

type Member = readonly unknown[];

function describeCapabilities({ capabilities }: Master): Member {
  const wanted = capabilities.map((name) => [name, true] as const);
  return ["capabilities", Object.fromEntries(wanted)];
}

function formatList(
  head: readonly Member[],
  keys: readonly Member[],
  delegate: string,
): string {
  return `{
${formatMembers(head, 4)}
    "plugins": [ {
${formatMembers(keys, 8)}
        "delegates": [
            ${delegate}
        ]
    }]
}
`;
}

function formatBare(keys: readonly Member[], delegate: string): string {
  return `{
${formatMembers(keys, 8)}
        "delegates": [
                ${delegate}
        ]
}
`;
}

function formatMembers(members: readonly Member[], indent: number): string {
  return members
    .map(([key, value]) =>
      `${" ".repeat(indent)}"${key}": ${JSON.stringify(value)},`
    ).join("\n");
}

function chooseVersion(
  { path, document }: Master,
  { cniVersion: wanted, forcesVersion }: MultusConfOptions,
): string {
  const version = forcesVersion ? wanted : document["cniVersion"];
  if (typeof version !== "string" || version === "") {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `cannot get cniVersion in master CNI config file "${path}"`,
    );
  }
  if (wanted !== "" && version !== wanted) {
    throw incompatible(
      `Multus cni version is "${wanted}" while master plugin cni version is "${version}"`,
    );
  }
  if (isSpecVersion(version)) return version;
  throw incompatible(
    `Cannot use "${path}" as master network: cniVersion "${version}" is not supported; the newest is ${CURRENT_VERSION}`,
  );
}

function incompatible(message: string): CniError {
  return new CniError(ErrorCode.IncompatibleVersion, message);
}

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

/** A file that might contain the master network's configuration. */
type Candidate = Pick<Master, "file" | "path">;

/**
 * Finds the master network: the first file in alphabetical order that configures a
 * network other than multus, whatever its name.
 *
 * Like runtimes, it skips unusable files. A file that was chosen by name, or chosen
 * before, is not skipped, because its owner is probably rewriting it.
 *
 * @param current The file that was chosen before
 * @param onSkipped Receives each skipped file, and the reason
 * @returns Undefined if there is none
 * @throws {CniError} 5, 6 or 7 if the chosen file is unusable
 */
export function findMasterFile(
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
 * Reads a file. Its content determines its format, not its extension.
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
 * Reads a network configuration or list, which the file's name does not distinguish.
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
