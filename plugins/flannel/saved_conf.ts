/**
 * The delegates' configurations on disk, saved between ADD and DEL: DEL undoes
 * what ADD did, even if `subnet.env` or the network has changed since.
 *
 * A file is named after the container's ID, as the Go plugin's, and has the
 * same content plus the name of the interface. The second attachment of a
 * container to flannel, which the Go plugin would save over the first one's,
 * has the file `ID:INTERFACE`. No container's ID has a colon.
 *
 * @module
 */

import { basename, join } from "@std/path/posix";
import {
  ifPossible,
  readFile,
  unlessUnreachable,
  withIoFailure,
} from "../../base/files/io.ts";
import { replaceFile } from "../../base/files/replace.ts";
import { isObject, type JsonObject, parseJson } from "../../base/json/json.ts";
import { encodeJson } from "../../base/json/json_bytes.ts";
import type { Attachment } from "../../cni/config/types.ts";
import type { DelegateConf } from "./delegate_conf.ts";

/** A file, and the attachment that it belongs to. */
export interface SavedConf {
  readonly path: string;
  readonly containerId: string;
  /** Undefined if the Go plugin wrote the file. */
  readonly ifName: string | undefined;
  /** The delegate's configuration; undefined if it cannot be read. */
  readonly conf: DelegateConf | undefined;
  /** The content, to put it back. */
  readonly bytes: Uint8Array;
}

/** A file whose configuration can be read. */
export type ReadableConf = SavedConf & { readonly conf: DelegateConf };

/** The key of the interface's name; the delegate does not get it. */
const IF_NAME = "flannelIfName";

/** The default directory of the Go plugin. */
const DATA_DIR = "/var/lib/cni/flannel";

/** The files of one directory. */
export class SavedConfs {
  readonly #directory: string;

  /** @param directory The usual one if undefined or "" */
  constructor(directory: string | undefined) {
    this.#directory = directory || DATA_DIR;
  }

  /**
   * Finds the file of an attachment. A file that cannot be read belongs to
   * every attachment of its container.
   *
   * @throws {CniError} 5 if a file cannot be read
   */
  find(owner: Attachment): SavedConf | undefined {
    return this.#pathsOf(owner)
      .map((path) => readIfThere(path))
      .find((saved) => saved !== undefined && belongsTo(saved, owner));
  }

  /**
   * Returns a path for the file of an attachment that has none.
   *
   * @throws {CniError} 5 if a file cannot be read
   */
  freePath(owner: Attachment): string {
    const [first, second] = this.#pathsOf(owner);
    return readIfThere(first) === undefined ? first : second;
  }

  /**
   * Lists the readable files of a network.
   *
   * @param before Files that are younger are left out
   * @throws {CniError} 5 if the directory cannot be read
   */
  list(network: string, before: Date): ReadableConf[] {
    const names = withIoFailure(
      `read the directory "${this.#directory}"`,
      () =>
        unlessUnreachable(() => [...Deno.readDirSync(this.#directory)]) ?? [],
    ).filter(({ isFile }) => isFile).map(({ name }) => name).sort();
    return names.flatMap((name) => {
      const path = join(this.#directory, name);
      const saved = ifPossible(() => readIfThere(path));
      const time = ifPossible(() => Deno.statSync(path).mtime);
      if (saved?.conf?.name !== network || !time || time > before) return [];
      return [{ ...saved, conf: saved.conf }];
    });
  }

  #pathsOf({ containerId, ifName }: Attachment): [string, string] {
    const path = join(this.#directory, containerId);
    return [path, `${path}:${ifName}`];
  }
}

/** Encodes the content of an attachment's file. */
export function encodeSaved(
  conf: DelegateConf,
  ifName: string,
): Uint8Array<ArrayBuffer> {
  return encodeJson({ ...conf, [IF_NAME]: ifName });
}

/**
 * Writes the file of an attachment; replaces an earlier one.
 *
 * @throws {CniError} 5 if it cannot be written
 */
export function writeSaved(path: string, bytes: Uint8Array): void {
  withIoFailure(`write "${path}"`, () => replaceFile(path, bytes));
}

function belongsTo({ conf, ifName }: SavedConf, owner: Attachment): boolean {
  return conf === undefined ||
    conf.name === owner.network && (ifName ?? owner.ifName) === owner.ifName;
}

function readIfThere(path: string): SavedConf | undefined {
  const bytes = withIoFailure(
    `read "${path}"`,
    () => unlessUnreachable(() => readFile(path)),
  );
  const [containerId = ""] = basename(path).split(":", 1);
  return bytes && { path, containerId, bytes, ...decodeSaved(bytes) };
}

/** Decodes a file. The Go plugin's may be cut short by a crash. */
function decodeSaved(bytes: Uint8Array): Pick<SavedConf, "conf" | "ifName"> {
  const document = ifPossible(() => parseJson(bytes));
  const unreadable = { conf: undefined, ifName: undefined };
  if (!isObject(document)) return unreadable;
  const { [IF_NAME]: ifName, ...conf } = document as JsonObject;
  if (!isDelegateConf(conf)) return unreadable;
  return { conf, ifName: typeof ifName === "string" ? ifName : undefined };
}

function isDelegateConf(conf: JsonObject): conf is DelegateConf {
  return typeof conf["name"] === "string" && typeof conf["type"] === "string";
}
