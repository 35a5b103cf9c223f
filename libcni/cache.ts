/**
 * The cache in which a runtime keeps its attachments between two processes: the
 * configuration and arguments of each ADD, and its result, which becomes the
 * prevResult of CHECK and DEL.
 *
 * Each attachment has one file, `<cache directory>/results/<network>-<container
 * ID>-<interface>`. The format is byte for byte the Go library's, and both can
 * share a directory. All three names may contain `-`, so file names are never
 * parsed; the file's content decides.
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

import { join } from "@std/path/posix";
import { CniError, ErrorCode } from "../base/error.ts";
import type { JsonObject } from "../base/json/json.ts";
import {
  type Attachment,
  type AttachmentKey,
  CACHE_KIND,
  type CachedDocument,
  type CachedRequest,
  decodeDocument,
  decodeResult,
  encodeDocument,
} from "./cache_file.ts";
import {
  ifPossible,
  readFile,
  removeIfThere,
  unlessMissing,
  withIoFailure,
} from "../base/files/io.ts";
import { replaceFile } from "../base/files/replace.ts";

export type { Attachment, AttachmentKey, CachedRequest };

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
  pathOf(key: AttachmentKey): string {
    const path = this.#path(key);
    const { length } = new TextEncoder().encode(nameOf(key));
    if (length <= NAME_BYTES) return path;
    throw unusable(
      key,
      `their file's name would have ${length} bytes, and ${NAME_BYTES} is the limit`,
    );
  }

  /**
   * Caches an attachment, and replaces an earlier one with the same names.
   *
   * @param result The result of ADD, as the plugin printed it
   * @throws {CniError} 4 as {@linkcode pathOf}, 5 if it cannot be written
   */
  writeAttachment(
    attachment: Attachment,
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
  replaceResult(key: AttachmentKey, result: JsonObject): boolean {
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
  readResult(key: AttachmentKey): JsonObject | undefined {
    const bytes = this.#read(key);
    if (bytes === undefined) return undefined;
    const found = withMessage(
      "decoding version from network config",
      () => decodeResult(bytes, `"${this.#path(key)}"`),
    );
    return belongsTo(key, found) ? found.result : undefined;
  }

  /**
   * Reads the input of ADD.
   *
   * @returns Undefined if the file is absent or cannot be read
   * @throws {CniError} 4 as {@linkcode pathOf}, 6 if the file is malformed or
   *   holds only a result
   */
  readConfig(key: AttachmentKey): CachedRequest | undefined {
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
    return this.#listNames()
      // The name alone shows that a file is not the container's; no need to
      // open it.
      .filter((name) => !containerId || name.includes(`-${containerId}-`))
      .map((name) => readAttachment(join(this.#directory, name)))
      .filter((found) => found !== undefined)
      .filter((found) => !containerId || found.containerId === containerId);
  }

  /**
   * Removes an attachment; succeeds if it is not cached. A file that names
   * another attachment is kept.
   *
   * @throws {CniError} 4 as {@linkcode pathOf}, 5 if the file cannot be removed
   */
  remove(key: AttachmentKey): void {
    const path = this.#path(key);
    const found = readAttachment(path);
    if (found !== undefined && !belongsTo(key, found)) return;
    removeIfThere(path);
  }

  #path(key: AttachmentKey): string {
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
    if (/[/\0]/.test(name)) throw unusable(key, `"/" or NUL is in them`);
    return join(this.#directory, name);
  }

  /** Reads a file; undefined if it is absent or empty. */
  #read(key: AttachmentKey): Uint8Array | undefined {
    return readIfPossible(this.#path(key));
  }

  #listNames(): string[] {
    const entries = withIoFailure(
      `read the cache directory "${this.#directory}"`,
      () => unlessMissing(() => [...Deno.readDirSync(this.#directory)]),
    );
    return (entries ?? []).map(({ name }) => name).sort();
  }
}

function nameOf({ network, containerId, ifName }: AttachmentKey): string {
  return `${network}-${containerId}-${ifName}`;
}

function unusable(
  { network, containerId, ifName }: AttachmentKey,
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

/** Reports whether a file belongs to an attachment, as far as its content says. */
function belongsTo(key: AttachmentKey, found: AttachmentKey): boolean {
  const names = ["network", "containerId", "ifName"] as const;
  return names.every((name) => [key[name], ""].includes(found[name]));
}

function readAttachment(path: string): CachedAttachment | undefined {
  const bytes = readIfPossible(path);
  const since = ifPossible(() => Deno.statSync(path).mtime);
  if (bytes === undefined || !since) return undefined;
  try {
    const { kind, ...document } = decodeDocument(bytes, path);
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

function readIfPossible(path: string): Uint8Array | undefined {
  const bytes = ifPossible(() => readFile(path));
  // A file that was not synced may be empty or all zeros after a crash.
  return bytes?.some((byte) => byte > SPACE) ? bytes : undefined;
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
