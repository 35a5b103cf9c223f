/**
 * The cache in which a runtime keeps its attachments between two processes: the
 * configuration and arguments of each ADD, and its result, which becomes the
 * prevResult of CHECK and DEL.
 *
 * Each attachment has one file, `<cache directory>/results/<network>-<container
 * ID>-<interface>`. The format is byte for byte the Go library's, and both can
 * share a directory. All three names may contain `-`, so file names are never
 * parsed, and the file's content decides.
 *
 * A file is always complete or absent, even after a crash. The Go library may
 * leave an empty file after a power loss, which counts as absent. Files survive
 * a reboot, but attachments do not; put the cache directory on a tmpfs, such as
 * `/run`, to avoid that.
 *
 * Source: containernetworking/cni libcni/api.go.
 *
 * @module
 */

import { type Attachment, optional } from "../cni/config/types.ts";
import type { Result } from "../cni/result/result.ts";
import { dirname, join } from "@std/path/posix";
import { CniError, ErrorCode } from "../base/error.ts";
import {
  decode,
  decodeLeniently,
  type JsonObject,
  type JsonValue,
  once,
  parseJson,
} from "../base/json/json.ts";
import {
  type FileContent,
  ifPossible,
  isTaken,
  readContent,
  removeIfThere,
  unlessMissing,
  withIoFailure,
} from "../base/files/io.ts";
import { replaceFile } from "../base/files/replace.ts";
import * as z from "zod/mini";
import { encodeJson } from "../base/json/json_bytes.ts";
import { decodeResult } from "../cni/result/decoding.ts";
import { encodeResult } from "../cni/result/encoding.ts";

/** The default cache directory. */
export const DEFAULT_CACHE_DIR = "/var/lib/cni";

/** Source: include/uapi/linux/limits.h `NAME_MAX`. */
const NAME_BYTES = 255;

/** An attachment found in the cache. */
export interface CachedAttachment extends CachedDocument {
  /** When its ADD ended. */
  readonly since: Date;
  /** The file. */
  readonly path: string;
}

/** What the files of a cache are. */
export interface CacheListing {
  /** In the order of their files' names. */
  readonly attachments: readonly CachedAttachment[];
  /**
   * Paths of files that are no attachments: unreadable, torn by a crash, or in
   * another format. GC cannot remove them, and names them.
   */
  readonly unreadable: readonly string[];
}

/** A result in its own version, and decoded. */
export interface AttachmentResult {
  /** The plugin's output, with `cniVersion` and unknown keys. */
  readonly document: JsonObject;
  /** The decoded result. */
  readonly result: Result;
}

/** The cache of one runtime's attachments. */
export class AttachmentCache {
  readonly #directory: string;

  /**
   * Opens the cache in a directory.
   *
   * @param cacheDir Created on first use; "" for the default
   */
  constructor(cacheDir: string = DEFAULT_CACHE_DIR) {
    this.#directory = join(cacheDir || DEFAULT_CACHE_DIR, "results");
  }

  /**
   * Returns the path of an attachment's file, which need not exist.
   *
   * @throws {CniError} 4 if a name is empty or contains `/` or NUL, or the
   *   names are too long together
   */
  pathOf(key: Attachment): string {
    const path = this.#path(key);
    const { length } = new TextEncoder().encode(nameOf(key));
    if (length <= NAME_BYTES) return path;
    throw unusable(
      key,
      `their file's name would have ${length} bytes; the limit is ${NAME_BYTES}`,
    );
  }

  /**
   * Returns the path of the record of an attachment's steps. A record does not contain
   * the names of its attachment, so the path must be unique. It is, because no network,
   * container or interface name contains a colon.
   *
   * @throws {CniError} 4 as {@linkcode pathOf}
   */
  stepsPathOf(key: Attachment): string {
    this.pathOf(key);
    const { network, containerId, ifName } = key;
    const name = `${network}:${containerId}:${ifName}`;
    return join(dirname(this.#directory), "steps", name);
  }

  /**
   * Caches an attachment, and replaces an earlier one with the same names.
   *
   * @param result The result of ADD, as the plugin printed it
   * @throws {CniError} 4 as {@linkcode pathOf}, 5 if it cannot be written
   */
  writeAttachment(
    attachment: DescribedAttachment,
    result: JsonObject | undefined,
  ): void {
    const path = this.pathOf(attachment);
    const bytes = encodeDocument({ ...attachment, result });
    withIoFailure(`write "${path}"`, () => replaceFile(path, bytes));
  }

  /**
   * Replaces the result of a cached attachment.
   *
   * @returns False if the attachment is not cached; nothing is written then
   * @throws {CniError} 4 as {@linkcode pathOf}, 5 if it cannot be written
   */
  replaceResult(key: Attachment, result: JsonObject): boolean {
    const found = readAttachment(this.pathOf(key));
    if (found === undefined || !belongsTo(key, found)) return false;
    this.writeAttachment(found, result);
    return true;
  }

  /**
   * Reads the result of ADD.
   *
   * @returns The result in its own version; undefined if it is absent or the
   *   file cannot be read
   * @throws {CniError} 4 as {@linkcode pathOf}, 6 if the file is malformed
   */
  readResult(key: Attachment): JsonObject | undefined {
    const bytes = this.#read(key);
    if (bytes === undefined) return undefined;
    const found = withMessage(
      "decoding version from network config",
      () => decodeOwnedResult(bytes, `"${this.#path(key)}"`),
    );
    return belongsTo(key, found) ? found.result : undefined;
  }

  /**
   * Finds the result of ADD in the version of a network's configuration, which may
   * have changed since.
   *
   * Source: containernetworking/cni libcni/api.go `getCachedResult`.
   *
   * @returns Undefined if none is cached
   * @throws {CniError} 1 or 6 If it is not a result, or cannot be converted to
   *   that version
   */
  findResult(
    key: Attachment,
    cniVersion: string,
  ): AttachmentResult | undefined {
    const document = this.readResult(key);
    if (document === undefined) return undefined;
    const result = decodeResult(document);
    if (document["cniVersion"] === cniVersion) return { document, result };
    try {
      return { document: encodeResult(result, cniVersion), result };
    } catch (cause) {
      const version = JSON.stringify(cniVersion);
      throw new Error(
        `failed to convert cached result to config version ${version}`,
        { cause },
      );
    }
  }

  /**
   * Reads the input of ADD.
   *
   * @returns Undefined if the file is absent or cannot be read
   * @throws {CniError} 4 as {@linkcode pathOf}, 6 if the file is malformed or
   *   holds only a result
   */
  readConfig(key: Attachment): CachedRequest | undefined {
    const bytes = this.#read(key);
    if (bytes === undefined) return undefined;
    const found = withMessage(
      `failed to unmarshal cached network "${key.network}" config`,
      () => decodeDocument(bytes, `"${this.#path(key)}"`),
    );
    if (found.kind !== CACHE_KIND) {
      throw new CniError(
        ErrorCode.DecodingFailure,
        `read cached network "${key.network}" config has wrong kind: ${found.kind}`,
      );
    }
    if (!belongsTo(key, found)) return undefined;
    const { config, cniArgs, capabilityArgs } = found;
    return { config, cniArgs, capabilityArgs };
  }

  /**
   * Lists attachments in the order of their file names. Skips files that are
   * not attachments or cannot be read.
   *
   * @param containerId Lists only this container's attachments
   * @throws {CniError} 5 if the directory cannot be read
   */
  listAttachments(containerId = ""): CachedAttachment[] {
    return [...this.eachAttachment(containerId)];
  }

  /**
   * Reads the attachments of {@linkcode listAttachments} one after the other, because
   * the attachments of a large node take megabytes.
   *
   * @throws {CniError} 5 if the directory cannot be read
   */
  eachAttachment(containerId = ""): IteratorObject<CachedAttachment> {
    return this.#listNames().values()
      // The name alone shows that a file is not the container's; no need to
      // open it.
      .filter((name) => !containerId || name.includes(`-${containerId}-`))
      .map((name) => readAttachment(join(this.#directory, name)))
      .filter((found) => found !== undefined)
      .filter((found) => !containerId || found.containerId === containerId);
  }

  /**
   * Reads all files once.
   *
   * @throws {CniError} 5 if the directory cannot be read
   */
  readAll(): CacheListing {
    const attachments: CachedAttachment[] = [];
    const unreadable: string[] = [];
    for (const name of this.#listNames()) {
      const path = join(this.#directory, name);
      const found = readAttachment(path);
      if (found !== undefined) attachments.push(found);
      else if (isTaken(path)) unreadable.push(path);
    }
    return { attachments, unreadable };
  }

  /**
   * Reads the files of listed attachments of a container again, as far as they still
   * exist. Unlike a new list, this does not read the whole directory.
   *
   * @param paths Their files
   */
  readAgain(
    containerId: string,
    paths: readonly string[],
  ): CachedAttachment[] {
    return paths.map(readAttachment)
      .filter((found) => found?.containerId === containerId)
      .filter((found) => found !== undefined);
  }

  /**
   * Removes an attachment; succeeds if it is not cached. A file that names
   * another attachment is kept.
   *
   * @throws {CniError} 4 as {@linkcode pathOf}, 5 if the file cannot be removed
   */
  remove(key: Attachment): void {
    const path = this.#path(key);
    const found = readAttachment(path);
    if (found !== undefined && !belongsTo(key, found)) return;
    removeIfThere(path);
  }

  #path(key: Attachment): string {
    const { network, containerId, ifName } = key;
    if ([network, containerId, ifName].includes("")) {
      throw new CniError(
        ErrorCode.InvalidEnvironment,
        `cache file path requires network name (${JSON.stringify(network)}), ` +
          `container ID (${JSON.stringify(containerId)}), ` +
          `and interface name (${JSON.stringify(ifName)})`,
      );
    }
    const name = nameOf(key);
    if (/[/\0]/.test(name)) throw unusable(key, `they contain "/" or NUL`);
    return join(this.#directory, name);
  }

  /** Reads a file; undefined if it is absent or empty. */
  #read(key: Attachment): Uint8Array | undefined {
    return readIfPossible(this.#path(key))?.bytes;
  }

  #listNames(): string[] {
    const entries = withIoFailure(
      `read the cache directory "${this.#directory}"`,
      () => unlessMissing(() => [...Deno.readDirSync(this.#directory)]),
    );
    return (entries ?? []).map(({ name }) => name).sort();
  }
}

function nameOf({ network, containerId, ifName }: Attachment): string {
  return `${network}-${containerId}-${ifName}`;
}

function unusable(
  { network, containerId, ifName }: Attachment,
  why: string,
): CniError {
  const names = [network, containerId, ifName].map((name) =>
    JSON.stringify(name)
  );
  return new CniError(
    ErrorCode.InvalidEnvironment,
    `Cannot name a cache file after ${names.join(", ")}: ${why}`,
  );
}

/**
 * Reports whether a file belongs to an attachment, according to its content.
 */
function belongsTo(key: Attachment, found: Attachment): boolean {
  const names = ["network", "containerId", "ifName"] as const;
  return names.every((name) => [key[name], ""].includes(found[name]));
}

/** Reads a file of a cache; undefined if it is not an attachment, or cannot be read. */
export function readAttachment(path: string): CachedAttachment | undefined {
  const content = readIfPossible(path);
  const since = content?.changedAt;
  if (content === undefined || !since) return undefined;
  try {
    const { kind, ...document } = decodeDocument(content.bytes, path);
    const { network, containerId, ifName } = document;
    const isWhole = ![network, containerId, ifName].includes("");
    return kind === CACHE_KIND && isWhole
      ? { ...document, since, path }
      : undefined;
  } catch (error) {
    if (error instanceof CniError) return undefined;
    throw error;
  }
}

function readIfPossible(path: string): FileContent | undefined {
  const content = ifPossible(() => readContent(path));
  // A file that was not synced may be empty or all zeros after a crash.
  return content?.bytes.some((byte) => byte > SPACE) ? content : undefined;
}

const SPACE = 0x20;

/** @throws {CniError} 6 with the Go library's message, whatever `run` throws */
function withMessage<T>(message: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw new CniError(ErrorCode.DecodingFailure, message, { cause: error });
  }
}

/** The input of ADD, which DEL and CHECK need again. */
export interface CachedRequest {
  /** The network's configuration as it was loaded, byte for byte. */
  readonly config: Uint8Array;
  /** The pairs of CNI_ARGS, in order; empty if none were cached. */
  readonly cniArgs: readonly (readonly [key: string, value: string])[];
  /** The runtime's capability arguments, by capability. */
  readonly capabilityArgs: JsonObject;
}

/** An attachment as its runtime describes it. */
export interface DescribedAttachment extends Attachment, CachedRequest {
  /** CNI_NETNS; "" for none. */
  readonly netns: string;
}

/** The content of a file: an attachment and its result. */
export interface CachedDocument extends DescribedAttachment {
  /** The result in its own version; undefined if absent. */
  readonly result: JsonObject | undefined;
}

/** The `kind` of documents in this format. */
const CACHE_KIND = "cniCacheV1";

/** Encodes a file exactly as the Go library would. */
function encodeDocument(
  { result = {}, ...attachment }: CachedDocument,
): Uint8Array<ArrayBuffer> {
  const { capabilityArgs } = attachment;
  // The order of the Go struct, which omits empty values.
  const members: (readonly [key: string, value: JsonValue])[] = [
    ["kind", CACHE_KIND],
    ["containerId", attachment.containerId],
    ["config", attachment.config.toBase64()],
    ["ifName", attachment.ifName],
    ["networkName", attachment.network],
  ];
  if (attachment.netns !== "") members.push(["netns", attachment.netns]);
  const cniArgs = attachment.cniArgs.map(([key, value]) => [key, value]);
  if (cniArgs.length > 0) members.push(["cniArgs", cniArgs]);
  if (!isEmpty(capabilityArgs)) {
    members.push(["capabilityArgs", capabilityArgs]);
  }
  if (!isEmpty(result)) members.push(["result", result]);
  const text = members.map(formatMember).join(",");
  return new TextEncoder().encode(`{${text}}`);
}

function isEmpty(object: JsonObject): boolean {
  return Object.keys(object).length === 0;
}

/** Formats one key and its value. */
function formatMember(member: readonly [string, JsonValue]): string {
  const object = encodeJson(Object.fromEntries([member]));
  return new TextDecoder().decode(object).slice(1, -1);
}

const documentSchema = once(() => {
  const text = z._default(z.string(), "");
  const object = optional(z.looseObject({}));
  return z.looseObject({
    kind: text,
    networkName: text,
    containerId: text,
    ifName: text,
    netns: text,
    config: text,
    cniArgs: optional(z.array(z.array(z.string()))),
    capabilityArgs: object,
    result: object,
  });
});

/**
 * Decodes a file.
 *
 * @param what The file's name in error messages
 * @returns The document; its kind differs from {@linkcode CACHE_KIND} if it is
 *   in another format
 * @throws {CniError} 6 If it is not JSON, or a key is of the wrong type
 */
export function decodeDocument(
  bytes: Uint8Array,
  what: string,
): CachedDocument & { readonly kind: string } {
  const json = parseJson(bytes, what);
  const raw = decode(documentSchema(), json, what, ErrorCode.DecodingFailure);
  return {
    kind: raw.kind,
    ...keyIn(raw),
    netns: raw.netns,
    config: decodeBase64(raw.config, what),
    // Go reads missing parts of a pair as empty.
    cniArgs: (raw.cniArgs ?? []).map(([key = "", value = ""]) => [key, value]),
    capabilityArgs: (raw.capabilityArgs ?? {}) as JsonObject,
    result: raw.result as JsonObject | undefined,
  };
}

/** The result in a file, and its attachment as far as the file names it. */
export interface OwnedResult extends Attachment {
  /** The result in its own version; undefined if absent. */
  readonly result: JsonObject | undefined;
}

/**
 * Decodes the result in a file, even if other parts of the file are malformed.
 * A file without a kind is itself a result, as libcni before 0.8 wrote it.
 *
 * @param what The file's name in error messages
 * @throws {CniError} 6 If it is not a JSON object, or is of another kind
 */
export function decodeOwnedResult(
  bytes: Uint8Array,
  what: string,
): OwnedResult {
  const json = parseJson(bytes, what);
  const raw = decodeLeniently(documentSchema(), json, what, () => {});
  if (raw.kind !== "" && raw.kind !== CACHE_KIND) {
    throw new CniError(
      ErrorCode.DecodingFailure,
      `Cannot decode ${what}: its kind is "${raw.kind}"`,
    );
  }
  const result = raw.kind === "" ? json : raw.result;
  return { ...keyIn(raw), result: result as JsonObject | undefined };
}

function keyIn(
  { networkName, containerId, ifName }: Readonly<
    Record<"networkName" | "containerId" | "ifName", string>
  >,
): Attachment {
  return { network: networkName, containerId, ifName };
}

function decodeBase64(text: string, what: string): Uint8Array {
  try {
    return Uint8Array.fromBase64(text);
  } catch (error) {
    throw new CniError(
      ErrorCode.DecodingFailure,
      `Cannot decode ${what}: config: not base64`,
      { cause: error },
    );
  }
}
