/**
 * The world of the daemon's process, and what of a caller's differs from it.
 *
 * @module
 */

import { isObject, parseJson } from "../../cni/json.ts";
import { findFileId } from "../../cni/files/same_file.ts";
import type { CallRequest, World } from "./protocol.ts";

/** A process's world, without a call's namespace. */
export type OwnWorld = Omit<World, "netns"> & {
  /** Identifies the code. */
  readonly build: string;
};

/**
 * Reads this process's world.
 *
 * @param build Identifies the code
 * @param hostNetns Path of the network namespace
 * @throws {Error} If a part of it cannot be read
 */
export function readOwnWorld(build: string, hostNetns: string): OwnWorld {
  return {
    build,
    host: requireFileId(hostNetns),
    mnt: requireFileId("/proc/self/ns/mnt"),
    root: requireFileId("/"),
    cwd: Deno.cwd(),
    umask: Deno.umask(),
  };
}

function requireFileId(path: string): string {
  const id = findFileId(path);
  if (id === undefined) throw new Error(`Cannot find "${path}"`);
  return id;
}

/**
 * Finds why a call cannot be run here as its caller would.
 *
 * @returns Undefined if it can
 */
export function findDifference(
  own: OwnWorld,
  { build, world, env, stdin }: Omit<CallRequest, "name" | "exe">,
): string | undefined {
  if (build !== own.build) return "another build";
  if (world.host !== own.host) return "another network namespace";
  if (world.mnt !== own.mnt) return "another mount namespace";
  if (world.root !== own.root) return "another root folder";
  if (world.umask !== own.umask) return "another umask";
  const netns = findFileId(env["CNI_NETNS"] ?? "") ?? null;
  if (world.netns !== netns) return "CNI_NETNS is another file";
  if (world.cwd === own.cwd) return undefined;
  return hasRelativePath(env, stdin) ? "another working folder" : undefined;
}

/** Variables with paths. */
const PATH_VARIABLES = ["CNI_NETNS", "CNI_PATH", "PATH"];

/** Keys with paths, in lower case, at any depth. */
const PATH_KEYS: ReadonlySet<string> = new Set([
  "bindir",
  "cniconf",
  "cnideviceinfofile",
  "cnidir",
  "cnioutput",
  "confdir",
  "datadir",
  "kubeconfig",
  "logfile",
  "multusconfigfile",
  "readinessindicatorfile",
  "resolvconf",
  "socketdir",
]);

/** Reports whether the working folder matters to a call. */
function hasRelativePath(
  env: CallRequest["env"],
  stdin: Uint8Array,
): boolean {
  const paths = PATH_VARIABLES.flatMap((name) => env[name]?.split(":") ?? []);
  return paths.some(isRelative) || hasRelativeKey(readLeniently(stdin));
}

/** What is not JSON is refused before any path in it is used. */
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
  return Object.entries(value).some(([key, item]) =>
    typeof item === "string"
      ? PATH_KEYS.has(key.toLowerCase()) && isRelative(item)
      : hasRelativeKey(item)
  );
}

function isRelative(path: string): boolean {
  return path !== "" && !path.startsWith("/");
}
