/**
 * Backups: the settings of a link before ADD, in a file for each attachment.
 *
 * @module
 */

import { join } from "@std/path/posix";
import type { CmdArgs } from "../../cni/call/args.ts";
import {
  ifPossible,
  readFile,
  readTextFile,
  removeIfThere,
  unlessUnreachable,
  withIoFailure,
} from "../../base/files/io.ts";
import { replaceFile } from "../../base/files/replace.ts";
import { decodeLeniently, isObject, parseJson } from "../../base/json/json.ts";
import type { Log } from "../../base/log/log.ts";
import { tryAll } from "../../base/rollback.ts";
import type { Call } from "../../cni/plugin.ts";
import type { LinkSettings } from "../parts/link/link_settings.ts";
import { backupSchema, type TuningConfig } from "./schema.ts";

/** Default directory of the files. */
const DATA_DIR = "/run/cni/tuning";

/** The location of an interface when its backup was written. */
export interface Place {
  /**
   * Its namespace, the result of `persistentIdOf`; undefined if it is not known.
   */
  readonly netns?: string | undefined;
  /** Its index there. */
  readonly index?: number | undefined;
}

/** The content of a backup. */
export type SavedLink = LinkSettings & Place;

/** The backup of an attachment, in the Go plugin's format. */
export class Backup {
  readonly #path: string;
  readonly #network: string;
  readonly #log: Log;

  constructor({ config, args, network, log }: Call<TuningConfig>) {
    this.#path = join(directoryOf(config), fileNameOf(args));
    this.#network = network;
    this.#log = log;
  }

  /**
   * Reads the settings. Returns undefined without a file. Ignores invalid
   * values.
   *
   * @throws {CniError} 5 if the file cannot be read
   */
  read(): SavedLink | undefined {
    const bytes = withIoFailure(
      `read "${this.#path}"`,
      () => unlessUnreachable(() => readFile(this.#path)),
    );
    if (bytes === undefined) return undefined;
    const ignore = (what: string, problem: string): void =>
      this.#log.warn(`Ignoring ${what} "${this.#path}"`, { problem });
    try {
      return decodeLeniently(
        backupSchema(),
        parseJson(bytes),
        "backup",
        (problem) => ignore("a key of", problem),
      );
    } catch {
      // The parser's error quotes the content, which might belong to a different
      // file.
      ignore("backup", "it is not a backup");
      return {};
    }
  }

  /**
   * Writes the settings.
   *
   * @throws {CniError} 5 if the file cannot be written
   */
  write(saved: SavedLink): void {
    const { mac, promisc, mtu, allmulti, txQLen, netns, index } = saved;
    const restorable = { mac, promisc, mtu, allmulti, txQLen };
    // The Go plugin ignores the network, which GC needs, and the place.
    const document = { ...restorable, network: this.#network, netns, index };
    const text = JSON.stringify(document, undefined, 1);
    withIoFailure(`write "${this.#path}"`, () => {
      replaceFile(this.#path, new TextEncoder().encode(text));
    });
  }

  /**
   * Removes the file, if it exists.
   *
   * @throws {CniError} 5 if it cannot be removed
   */
  remove(): void {
    removeIfThere(this.#path);
  }
}

/**
 * Removes the backups of stale attachments to the network. The Go plugin's backups do
 * not name their network, so they are kept.
 *
 * @throws {CniError} 5 if the directory cannot be read
 * @throws {Error} If a backup cannot be removed, after all others were removed
 */
export async function removeStaleBackups(
  { config, network, validAttachments }: Call<TuningConfig>,
): Promise<void> {
  if (validAttachments === undefined) return;
  const directory = directoryOf(config);
  const spared = new Set(validAttachments.map(fileNameOf));
  const entries = withIoFailure(
    `list "${directory}"`,
    () => unlessUnreachable(() => [...Deno.readDirSync(directory)]) ?? [],
  );
  const stale = entries.map(({ name }) => name)
    .filter((name) => !spared.has(name))
    .map((name) => join(directory, name))
    .filter((path) => networkOf(path) === network);
  await tryAll(
    stale.map((path) => [`remove "${path}"`, () => removeIfThere(path)]),
  );
}

/** Returns undefined for a file that is not a backup. */
function networkOf(path: string): unknown {
  const document = ifPossible(() => parseJson(readTextFile(path)));
  return isObject(document) ? document["network"] : undefined;
}

function directoryOf({ dataDir }: TuningConfig): string {
  return dataDir || DATA_DIR;
}

function fileNameOf(
  { containerId, ifName }: Pick<CmdArgs, "containerId" | "ifName">,
): string {
  return `${containerId}_${ifName}.json`;
}
