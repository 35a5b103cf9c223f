/**
 * The attachments that GC keeps.
 *
 * @module
 */

import { dirname, join } from "@std/path/posix";
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
 * Lists the attachments that the runtime lists as valid, and those that multus
 * made to the network.
 *
 * CRI-O runs GC of every network in its directory, and lists its own attachments
 * only. To a network that multus runs for the pods it has none, so its list is
 * empty while all of them use the network.
 *
 * Source: cri-o/ocicni pkg/ocicni/ocicni.go `GC`.
 *
 * @param config A parsed network configuration
 * @param network Its name
 * @returns Undefined if the runtime lists nothing
 * @throws {CniError} 7 if the list is malformed, 5 if the cache cannot be read
 */
export function listValidAttachments(
  config: object,
  network: string,
  cacheDir = MULTUS_CACHE_DIR,
): readonly AttachmentId[] | undefined {
  const valid = decodeValidAttachments(config);
  if (valid === undefined) return undefined;
  const isValid = listedTest(valid);
  const others = listOwn(cacheDir)
    .filter((cached) => cached.network === network && !isValid(cached))
    .map(({ containerId, ifName }) => ({ containerId, ifName }));
  return [...valid, ...others];
}

/**
 * Returns the configuration of an IPAM plugin for GC: byte for byte, unless the
 * runtime does not list all attachments to keep. The IPAM plugin might be
 * third-party, and not know the attachments of multus. The Go plugin host-local
 * would release their addresses.
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
 * Lists the attachments of this user's multus. A directory of another user,
 * such as root's where a runtime is rootless, has nothing for this one's
 * networks.
 */
function listOwn(cacheDir: string): readonly CachedAttachment[] {
  try {
    return listCached(join(cacheDir, "results"));
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

/** @throws {CniError} 5 if the directory cannot be read */
function listCached(directory: string): CachedAttachment[] {
  const entries = withIoFailure(
    `read the cache directory "${directory}"`,
    () => unlessMissing(() => [...Deno.readDirSync(directory)]),
  );
  return (entries ?? []).map(({ name }) => name).sort().flatMap((name) => {
    const file = ifPossible(() => parseJson(readFile(join(directory, name))));
    return readCached(file) ?? [];
  });
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
