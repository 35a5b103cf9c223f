/**
 * What a runtime remembers of its attachments between two processes: the
 * configuration and arguments of each ADD, and its result, which CHECK and DEL
 * are given as prevResult.
 *
 * There is one file for each attachment,
 * `<cache folder>/results/<network>-<container ID>-<interface>`. Its format is
 * the Go library's to the byte, and both may work in one folder. All three
 * names may contain `-`, so a file's name is never taken apart: what counts is
 * in the file.
 *
 * A file is complete or not there, whatever crashes: the Go library's may be
 * empty after a loss of power, and such a file is taken for none. Files outlive
 * a reboot, which the attachments do not. A cache folder on a tmpfs, such as
 * one in `/run`, does not.
 *
 * Source: containernetworking/cni libcni/api.go.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { CniError, ErrorCode } from "../error.ts";
import type { JsonObject } from "../json.ts";
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
  removeIfThere,
  unlessMissing,
  withIoFailure,
} from "../io_failure.ts";
import { replaceFile } from "./replace_file.ts";

export type { Attachment, AttachmentKey, CachedRequest };

/** Where attachments are remembered unless the runtime says otherwise. */
export const DEFAULT_CACHE_DIR = "/var/lib/cni";

/** Source: include/uapi/linux/limits.h `NAME_MAX`. */
const NAME_BYTES = 255;

/** An attachment that was found in the cache. */
export interface CachedAttachment extends CachedDocument {
  /** When its ADD ended. */
  readonly since: Date;
  /** The file. */
  readonly path: string;
}

/** The attachments of one runtime. */
export class AttachmentCache {
  readonly #folder: string;

  /**
   * Keeps them in a folder.
   *
   * @param cacheDir Made when it is needed; the default if ""
   */
  constructor(cacheDir: string = DEFAULT_CACHE_DIR) {
    this.#folder = join(cacheDir || DEFAULT_CACHE_DIR, "results");
  }

  /**
   * Returns the file of an attachment, whether it is there or not.
   *
   * @throws {CniError} 4 if a name is empty, leads to another folder, or all of
   *   them are too long together
   */
  pathOf(key: AttachmentKey): string {
    const path = this.#path(key);
    const { length } = new TextEncoder().encode(nameOf(key));
    if (length <= NAME_BYTES) return path;
    throw unusable(
      key,
      `a file's name may have ${NAME_BYTES} bytes, and theirs would have ${length}`,
    );
  }

  /**
   * Remembers an attachment, in place of an earlier one with the same names.
   *
   * @param result What ADD answered, as it was answered
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
   * Changes what ADD answered, of an attachment that is remembered.
   *
   * @returns Whether it is; if not, nothing is written
   * @throws {CniError} 4 as {@linkcode pathOf}, 5 if it cannot be written
   */
  replaceResult(key: AttachmentKey, result: JsonObject): boolean {
    const found = readAttachment(this.pathOf(key));
    if (found === undefined || !belongsTo(key, found)) return false;
    this.writeAttachment(found, result);
    return true;
  }

  /**
   * Reads what ADD answered.
   *
   * @returns The result in its own version; undefined if there is none, or no
   *   file that could be read
   * @throws {CniError} 4 as {@linkcode pathOf}, 6 if the file has something else
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
   * Reads what ADD was asked for.
   *
   * @returns Undefined if there is no file that could be read
   * @throws {CniError} 4 as {@linkcode pathOf}, 6 if the file has something
   *   else, such as a result alone
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
   * Lists attachments in the order of their files' names. What is no attachment,
   * or cannot be read, is left out.
   *
   * @param containerId Lists those of one container
   * @throws {CniError} 5 if the folder cannot be read
   */
  listAttachments(containerId = ""): CachedAttachment[] {
    return this.#listNames()
      // Such a file need not be opened to know that it is not the container's.
      .filter((name) => !containerId || name.includes(`-${containerId}-`))
      .map((name) => readAttachment(join(this.#folder, name)))
      .filter((found) => found !== undefined)
      .filter((found) => !containerId || found.containerId === containerId);
  }

  /**
   * Forgets an attachment; succeeds if it is not remembered. A file that says
   * it belongs to another attachment stays.
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
    return join(this.#folder, name);
  }

  /** Reads a file that has something in it; any other one is no file. */
  #read(key: AttachmentKey): Uint8Array | undefined {
    return readIfPossible(this.#path(key));
  }

  #listNames(): string[] {
    const entries = withIoFailure(
      `read the cache folder "${this.#folder}"`,
      () => unlessMissing(() => [...Deno.readDirSync(this.#folder)]),
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

/** Says whether a file is an attachment's, by what it says itself, if anything. */
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
  // To read a pipe would be to wait for a writer.
  const isFile = ifPossible(() => Deno.statSync(path).isFile);
  if (!isFile) return undefined;
  const bytes = ifPossible(() => Deno.readFileSync(path));
  // A file that was not synced may be empty after a crash, or full of zeros.
  return bytes?.some((byte) => byte > SPACE) ? bytes : undefined;
}

const SPACE = 0x20;

/** @throws {CniError} 6 with the Go library's words, whatever `run` throws */
function withMessage<T>(message: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw new CniError(ErrorCode.DecodingFailure, message, { cause: error });
  }
}
