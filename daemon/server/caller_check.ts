/**
 * The attributes of a process that decide whether the daemon can run its calls:
 * namespaces, root directory, credentials.
 *
 * @module
 */

import { normalize } from "@std/path/posix";
import { foldKey, isObject, parseJson } from "../../base/json/json.ts";
import { findFileId } from "../../base/files/same_file.ts";
import { findNodeKey, isRelativePath } from "../../plugins/node_keys.ts";
import type { CallRequest } from "../wire/request.ts";
import type { DeclineReason } from "./decline_reasons.ts";

/**
 * The attributes that determine the meaning of paths and names for a process, and its
 * permissions. `findFileId` identifies the files.
 */
export interface ProcessAttributes {
  /** The network namespace. */
  readonly host: string;
  /** The mount namespace. */
  readonly mnt: string;
  /** The user namespace. */
  readonly user: string;
  /** The root directory. */
  readonly root: string;
  /** The working directory. */
  readonly cwd: string;
  readonly umask: number;
  /** The effective capabilities in its user namespace: a bit for each. */
  readonly capabilities: bigint;
}

/** The attributes of a caller. */
export interface CallerAttributes extends ProcessAttributes {
  /** Its executable. */
  readonly exe: string;
}

/** The attributes of this process. */
export interface OwnAttributes extends ProcessAttributes {
  /** Identifies the code. */
  readonly build: string;
}

/**
 * Reads this process's attributes.
 *
 * @param build Identifies the code
 * @param hostNetns Path of the network namespace
 * @throws {Error} If a part of it cannot be read
 */
export function readOwnAttributes(
  build: string,
  hostNetns: string,
): OwnAttributes {
  return {
    ...readAttributes("/proc/self"),
    build,
    host: requireFileId(hostNetns),
  };
}

/**
 * Reads the attributes of a process that has sent a call.
 *
 * @param directory Its directory in /proc
 * @throws {Error} If a part of it cannot be read
 */
export function readCallerAttributes(directory: string): CallerAttributes {
  return {
    ...readAttributes(directory),
    exe: requireFileId(`${directory}/exe`),
  };
}

/** Source: proc_pid_ns(5), proc_pid_status(5). */
function readAttributes(directory: string): ProcessAttributes {
  const status = readBeginning(`${directory}/status`);
  const [, umask = ""] = /^Umask:\t(\d+)$/m.exec(status) ?? [];
  const [, capabilities = ""] = /^CapEff:\t(\w+)$/m.exec(status) ?? [];
  return {
    host: requireFileId(`${directory}/ns/net`),
    mnt: requireFileId(`${directory}/ns/mnt`),
    user: requireFileId(`${directory}/ns/user`),
    root: requireFileId(`${directory}/root`),
    cwd: Deno.readLinkSync(`${directory}/cwd`),
    umask: parseInt(umask, 8),
    capabilities: BigInt(`0x${capabilities}`),
  };
}

const beginning = new Uint8Array(4096);

/** Reads the file in one piece: for each further read, the kernel would format it again. */
function readBeginning(path: string): string {
  using file = Deno.openSync(path);
  const length = file.readSync(beginning) ?? 0;
  return new TextDecoder("latin1").decode(beginning.subarray(0, length));
}

function requireFileId(path: string): string {
  const id = findFileId(path);
  if (id === undefined) throw new Error(`Cannot find "${path}"`);
  return id;
}

/**
 * Finds why this process cannot run a call as its caller would.
 *
 * @returns Undefined if it can
 */
export function findDifference(
  own: OwnAttributes,
  { build, env, stdin }: Pick<CallRequest, "build" | "env" | "stdin">,
  attributes: CallerAttributes,
): DeclineReason | undefined {
  if (build !== own.build) return "another build";
  if (attributes.user !== own.user) return "another user namespace";
  if (attributes.host !== own.host) return "another network namespace";
  if (attributes.mnt !== own.mnt) return "another mount namespace";
  if (attributes.root !== own.root) return "another root directory";
  if (attributes.umask !== own.umask) return "another umask";
  const lent = own.capabilities & NEEDED & ~attributes.capabilities;
  if (lent !== 0n) return "missing capabilities";
  if (isOfReader(env["CNI_NETNS"] ?? "")) return "CNI_NETNS is another file";
  if (attributes.cwd === own.cwd) return undefined;
  return hasRelativePath(env, stdin) ? "another working directory" : undefined;
}

/**
 * Capabilities that a caller needs if the daemon has them. In the node's namespaces, a
 * process with these capabilities can do everything that a call does.
 *
 * Source: linux/capability.h `CAP_NET_ADMIN`, `CAP_SYS_ADMIN`.
 */
const NEEDED = 1n << 12n | 1n << 21n;

/**
 * Reports whether a path leads to a different file in each process that uses it. The
 * network namespace has been compared before.
 */
function isOfReader(path: string): boolean {
  const [, file] = /^\/(?:proc\/(?:thread-)?self|dev\/fd)\/(.*)$/
    .exec(normalize(path)) ?? [];
  return file !== undefined && file !== "ns/net";
}

/** Variables with paths. */
const PATH_VARIABLES = ["CNI_NETNS", "CNI_PATH", "PATH"];

/** Reports whether the working directory matters to a call. */
function hasRelativePath(
  env: CallRequest["env"],
  stdin: Uint8Array,
): boolean {
  const paths = PATH_VARIABLES.flatMap((name) => env[name]?.split(":") ?? []);
  return paths.some(isRelative) || hasRelativeKey(readLeniently(stdin));
}

/** The plugin refuses text that is not JSON before it uses a path in it. */
function readLeniently(stdin: Uint8Array): unknown {
  try {
    return parseJson(new TextDecoder().decode(stdin), "it");
  } catch {
    return undefined;
  }
}

function hasRelativeKey(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(hasRelativeKey);
  if (!isObject(value)) return false;
  return Object.entries(value).some(([key, item]) => {
    const row = findNodeKey(foldKey(key));
    const texts = [item].flat().filter((one) => typeof one === "string");
    return row !== undefined &&
        texts.some((text) => isRelativePath(row, text)) ||
      hasRelativeKey(item);
  });
}

function isRelative(path: string): boolean {
  return path !== "" && !path.startsWith("/");
}
