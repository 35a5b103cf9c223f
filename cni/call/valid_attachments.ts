/**
 * The attachments that GC keeps.
 *
 * @module
 */

import { basename, dirname, join } from "@std/path/posix";
import {
  type AttachmentId,
  decodeValidAttachments,
  listedTest,
  MULTUS_CACHE_DIR,
  VALID_KEYS,
} from "../config/types.ts";
import { CniError } from "../../base/error.ts";
import {
  ifPossible,
  readFile,
  unlessMissing,
  withIoFailure,
} from "../../base/files/io.ts";
import { isObject, parseJson } from "../../base/json/json.ts";
import { encodeJson } from "../../base/json/json_bytes.ts";

/**
 * Lists the attachments that the runtime lists as valid, and those that a plugin which
 * is itself a runtime (`Plugin.isRuntime`) made to the network.
 *
 * CRI-O runs GC of every network in its directory, and lists its own attachments
 * only. To a network that such a plugin runs for the pods it has none, so its list is
 * empty while all of them use the network.
 *
 * Source: cri-o/ocicni pkg/ocicni/ocicni.go `GC`.
 *
 * A file that cannot be read, or was torn by a crash, keeps whatever its name may stand
 * for: GC must not release what lives.
 *
 * @param config A parsed network configuration
 * @param network Its name
 * @param cacheDir The cache of such a plugin
 * @param onUnreadable Receives the paths of such files, unless the list has all that
 * they may stand for: then the plugin that runs the network names them itself
 * @returns Undefined if the runtime lists nothing
 * @throws {CniError} 7 if the list is malformed, 5 if the cache cannot be read
 */
export function listValidAttachments(
  config: object,
  network: string,
  cacheDir: string = MULTUS_CACHE_DIR,
  onUnreadable: (path: string) => void = () => {},
): readonly AttachmentId[] | undefined {
  const valid = decodeValidAttachments(config);
  if (valid === undefined) return undefined;
  const isValid = listedTest(valid);
  const others = listOwn(cacheDir, { network, isValid, onUnreadable })
    .filter((cached) => cached.network === network && !isValid(cached))
    .map(({ containerId, ifName }) => ({ containerId, ifName }));
  return [...valid, ...others];
}

/**
 * Returns the configuration of an IPAM plugin for GC: byte for byte, unless the
 * runtime does not list all attachments to keep. The IPAM plugin might be
 * third-party, and know only what is listed. The Go plugin host-local would release
 * the addresses of the others.
 *
 * @param valid The attachments of {@linkcode listValidAttachments}, and maybe more
 */
export function configOfGc(
  { bytes, document }: { bytes: Uint8Array; document: object },
  valid: readonly AttachmentId[],
): Uint8Array {
  const listed = decodeValidAttachments(document) ?? [];
  if (valid.length === listed.length) return bytes;
  const list = valid.map(({ containerId, ifName }) => ({
    containerID: containerId,
    ifname: ifName,
  }));
  const others = Object.entries(document).filter(([key]) =>
    !VALID_KEYS.includes(key.toLowerCase())
  );
  const lists = VALID_KEYS.map((key) => [key, list]);
  return encodeJson(Object.fromEntries([...others, ...lists]));
}

/**
 * Lists the attachments in the cache. A directory of another user, such as root's
 * where a runtime is rootless, has nothing for this one's networks.
 */
function listOwn(
  cacheDir: string,
  reading: Reading,
): readonly CachedAttachment[] {
  try {
    return listCached(join(cacheDir, "results"), reading);
  } catch (error) {
    const isDenied = error instanceof CniError &&
      error.cause instanceof Deno.errors.PermissionDenied;
    const owner = [cacheDir, dirname(cacheDir)]
      .map((path) => ifPossible(() => Deno.statSync(path).uid))
      .find((uid) => uid !== undefined);
    if (isDenied && owner !== Deno.uid()) return [];
    throw error;
  }
}

/** An attachment in a runtime's cache. */
interface CachedAttachment extends AttachmentId {
  readonly network: string;
}

/** Whose attachments are read. */
interface Reading {
  readonly network: string;
  readonly isValid: (attachment: AttachmentId) => boolean;
  readonly onUnreadable: (path: string) => void;
}

/** @throws {CniError} 5 if the directory cannot be read */
function listCached(
  directory: string,
  { network, isValid, onUnreadable }: Reading,
): CachedAttachment[] {
  const entries = withIoFailure(
    `read the cache directory "${directory}"`,
    () => unlessMissing(() => [...Deno.readDirSync(directory)]),
  );
  return (entries ?? []).map(({ name }) => name).sort().flatMap((name) => {
    const path = join(directory, name);
    const file = ifPossible(() =>
      unlessMissing(() => readFile(path)) ?? "gone"
    );
    if (file === "gone") return [];
    const found = readCached(ifPossible(() => file && parseJson(file)));
    if (found !== undefined) return [found];
    const possible = attachmentsNamed(name, network);
    if (!possible.every(isValid)) onUnreadable(path);
    return possible.map((one) => ({ ...one, network }));
  });
}

/** Source: include/uapi/linux/if.h `IFNAMSIZ`, less the NUL. */
const IFNAME_BYTES = 15;

/**
 * Lists the attachments to a network for which the name of a file of a cache may
 * stand, `<network>-<container ID>-<interface>`: all three may contain `-`.
 */
export function attachmentsNamed(
  file: string,
  network: string,
): AttachmentId[] {
  const prefix = `${network}-`;
  if (!file.startsWith(prefix)) return [];
  const rest = file.slice(prefix.length);
  return [...rest.matchAll(/-/g)].map(({ index }) => ({
    containerId: rest.slice(0, index),
    ifName: rest.slice(index + 1),
  })).filter(({ containerId, ifName }) =>
    containerId !== "" && ifName !== "" && ifName.length <= IFNAME_BYTES
  );
}

/**
 * Lists the attachments to a network for which unreadable files of a cache may stand. A
 * list of valid attachments that is made from the cache needs them.
 *
 * @param paths The files
 */
export function listPossible(
  paths: readonly string[],
  network: string,
): AttachmentId[] {
  return paths.flatMap((path) => attachmentsNamed(basename(path), network));
}

/**
 * Reads what a file of the cache is about.
 *
 * Source: containernetworking/cni libcni/api.go `cachedInfo`.
 *
 * @returns Undefined if it has no attachment
 */
function readCached(file: unknown): CachedAttachment | undefined {
  if (!isObject(file) || file["kind"] !== "cniCacheV1") return undefined;
  const { networkName: network, containerId, ifName } = file;
  return isName(network) && isName(containerId) && isName(ifName)
    ? { network, containerId, ifName }
    : undefined;
}

function isName(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}
