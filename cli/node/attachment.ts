/**
 * Descriptions of attachments, as the commands of runtimes need them.
 *
 * @module
 */

import type { JsonObject } from "../../base/json/json.ts";
import { checkContainerId, checkInterfaceName } from "../../cni/call/args.ts";
import { ifPossible } from "../../base/files/io.ts";
import {
  type AttachmentResult,
  type CachedAttachment,
  type NetworkConfList,
  type NetworkRuntime,
  parseNetworkConfList,
  type RuntimeConf,
} from "../../libcni/mod.ts";
import { encodeResult } from "../../cni/result/encoding.ts";
import { sha512 } from "../../base/process/sha512.ts";
import type { CniCall } from "../flags.ts";
import { isOfNetns, listAttachments } from "./node_attachments.ts";
import { findTarget, resolveNetns } from "./target.ts";
import {
  type Directories,
  getNetwork,
  readArgs,
  readDirectories,
} from "./network.ts";

/**
 * Describes a new attachment. The container ID is derived from the namespace's
 * path unless it is given.
 *
 * @throws {Error} If the command line or the environment is invalid
 */
export async function describeNewAttachment(
  call: CniCall,
  netns: string,
): Promise<RuntimeConf> {
  const path = resolveNetns(netns, readDirectories(call));
  const containerId = call.flags["container-id"] ??
    await makeContainerId(path);
  const conf = { containerId, netns: path, ...readArgs(call) };
  checkContainerId(conf.containerId);
  checkInterfaceName(conf.ifName);
  return conf;
}

/**
 * Describes an existing attachment, which the tool or a runtime made
 * under another path of the namespace or another container ID.
 *
 * @param network Name of the network
 * @throws {Error} If the namespace has several
 */
export async function describeMadeAttachment(
  call: CniCall,
  { network, netns }: { readonly network: string; readonly netns: string },
): Promise<RuntimeConf> {
  const { containerId } = findTarget(netns, readDirectories(call));
  const conf = await describeNewAttachment(call, netns);
  const isOf = (cached: CachedAttachment): boolean =>
    cached.network === network && cached.ifName === conf.ifName &&
    (isOfNetns(cached, conf.netns) || cached.containerId === containerId);
  if (call.flags["container-id"] !== undefined) {
    return completeId(
      conf,
      () => listAttachments(readDirectories(call)).filter(isOf),
    );
  }
  const made = listAttachments(readDirectories(call)).filter(isOf);
  const isOwn = made.some(({ containerId }) =>
    containerId === conf.containerId
  );
  const [only] = made;
  if (only === undefined || isOwn) return conf;
  if (made.length === 1) return { ...conf, containerId: only.containerId };
  const ids = made.map(({ containerId }) => containerId).join(", ");
  throw new Error(
    `Cannot choose among the attachments of "${conf.netns}" to "${network}": name one with ` +
      `--container-id: ${ids}`,
  );
}

/** Completes a container ID from a unique prefix, such as `cni list` shows. */
function completeId(
  conf: RuntimeConf,
  listMade: () => readonly CachedAttachment[],
): RuntimeConf {
  const ids = (ifPossible(listMade) ?? []).map(({ containerId }) =>
    containerId
  );
  const [only, ...others] = ids.filter((id) => id.startsWith(conf.containerId));
  return only === undefined || others.length > 0
    ? conf
    : { ...conf, containerId: only };
}

/** A network that might have attachments although its configuration was deleted. */
interface NamedNetwork {
  readonly name: string;
  /** Undefined if the configuration was deleted. */
  readonly list?: NetworkConfList;
  /** The error of the search for it; undefined if it was found. */
  readonly error?: unknown;
}

/**
 * Finds a network by its name or path. A search by name can also end at a file that
 * cannot be read, even at the file of a different network.
 */
export function tryNetwork(
  directories: Directories,
  network: string,
): NamedNetwork {
  try {
    const list = getNetwork(directories, network);
    return { name: list.name, list };
  } catch (error) {
    if (network.includes("/")) throw error;
    return { name: network, error };
  }
}

/**
 * Returns a network's configuration or, without one, the configuration of ADD.
 *
 * @throws The error of the search, if the cache has none either
 */
export function restoreNetwork(
  runtime: NetworkRuntime,
  { name, list, error }: NamedNetwork,
  conf: RuntimeConf,
): NetworkConfList {
  if (list !== undefined) return list;
  const cached = ifPossible(() => runtime.findCachedConfig({ name }, conf));
  if (cached === undefined) throw error;
  return parseNetworkConfList(cached.config);
}

/** Number of hexadecimal digits of the hash in an ID: ten bytes. */
const ID_DIGITS = 20;

/**
 * Derives a container ID from a namespace's path, as cnitool does.
 *
 * Source: containernetworking/cni cnitool/cnitool.go.
 *
 * @param netns The absolute path; links are not resolved
 */
export async function makeContainerId(netns: string): Promise<string> {
  const hash = await sha512(netns);
  return `cnitool-${hash.slice(0, ID_DIGITS)}`;
}

/**
 * Returns a result in its own version, with its keys in cnitool's order;
 * unchanged if it cannot be decoded.
 */
export function arrangeResult(
  { document, result }: AttachmentResult,
): JsonObject {
  try {
    return encodeResult(result, String(document["cniVersion"]));
  } catch {
    return document;
  }
}
