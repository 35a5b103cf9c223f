/**
 * The attachments that GC keeps.
 *
 * @module
 */

import { basename, dirname, join } from "@std/path/posix";
import {
  type Attachment,
  type AttachmentId,
  decodeValidAttachments,
  listedTest,
  MULTUS_CACHE_DIR,
  VALID_KEYS,
} from "../config/types.ts";
import { fitsInterfaceName } from "../../net/interface_name.ts";
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
 * Lists the attachments that GC of a network keeps: the valid attachments in the
 * runtime's list, and the attachments in the cache of a plugin that is itself a runtime
 * (`Plugin.isRuntime`), such as multus.
 *
 * CRI-O runs GC for every network in its directory, and lists only its own
 * attachments. It has none to a network that multus attaches, so its list is empty
 * while pods use the network.
 *
 * Source: cri-o/ocicni pkg/ocicni/ocicni.go `GC`.
 *
 * If a cache file cannot be read, every attachment that its name could describe is
 * kept, because GC must not release the resources of a running container.
 *
 * @param config A parsed network configuration
 * @param network The network's name
 * @param cacheDir The cache directory of the plugin that is a runtime
 * @param onUnreadable Receives the path of each unreadable file, unless the runtime's
 * list already contains every attachment that the file could describe
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
  const cached = listReadable(cacheDir, { network, isValid, onUnreadable })
    .filter((entry) => entry.network === network && !isValid(entry))
    .map(({ containerId, ifName }) => ({ containerId, ifName }));
  return [...valid, ...cached];
}

/**
 * Returns the configuration of an IPAM plugin for GC: byte for byte, unless the
 * runtime's list lacks attachments that GC keeps. A third-party IPAM plugin, such as
 * the Go plugin host-local, releases the addresses of all attachments that are not
 * in the list.
 *
 * @param valid The attachments to keep: at least those of {@linkcode listValidAttachments}
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
  const otherKeys = Object.entries(document).filter(([key]) =>
    !VALID_KEYS.includes(key.toLowerCase())
  );
  const lists = VALID_KEYS.map((key) => [key, list]);
  return encodeJson(Object.fromEntries([...otherKeys, ...lists]));
}

/**
 * Lists the attachments in the cache. A rootless runtime cannot read root's cache,
 * which contains no attachments to its networks.
 */
function listReadable(
  cacheDir: string,
  reading: Reading,
): readonly Attachment[] {
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

/** The network whose attachments are read. */
interface Reading {
  readonly network: string;
  readonly isValid: (attachment: AttachmentId) => boolean;
  readonly onUnreadable: (path: string) => void;
}

/** @throws {CniError} 5 if the directory cannot be read */
function listCached(
  directory: string,
  { network, isValid, onUnreadable }: Reading,
): Attachment[] {
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
    const cached = readCached(ifPossible(() => file && parseJson(file)));
    if (cached !== undefined) return [cached];
    const possible = attachmentsNamed(name, network);
    if (!possible.every(isValid)) onUnreadable(path);
    return possible.map((attachment) => ({ ...attachment, network }));
  });
}

/**
 * Lists the attachments to a network whose cache file could have this name. A name
 * is `<network>-<container ID>-<interface>`, and all three parts can contain `-`.
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
    containerId !== "" && ifName !== "" &&
    fitsInterfaceName(ifName)
  );
}

/**
 * Lists the attachments to a network that unreadable cache files could describe, as
 * their names suggest. A list of valid attachments must contain them.
 *
 * @param paths The unreadable files
 */
export function listPossible(
  paths: readonly string[],
  network: string,
): AttachmentId[] {
  return paths.flatMap((path) => attachmentsNamed(basename(path), network));
}

/**
 * Reads the attachment that a cache file describes.
 *
 * Source: containernetworking/cni libcni/api.go `cachedInfo`.
 *
 * @returns Undefined if the file describes no attachment
 */
function readCached(file: unknown): Attachment | undefined {
  if (!isObject(file) || file["kind"] !== "cniCacheV1") return undefined;
  const { networkName: network, containerId, ifName } = file;
  return isName(network) && isName(containerId) && isName(ifName)
    ? { network, containerId, ifName }
    : undefined;
}

function isName(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}
