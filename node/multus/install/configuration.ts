/**
 * The configuration of multus on a node, which follows the master network's.
 *
 * It is never empty and never removed while it is needed: a runtime that finds
 * none takes the master network's, and pods lose their other networks without
 * a word.
 *
 * @module
 */

import { basename, join } from "@std/path/posix";
import { describeError } from "../../../cni/error.ts";
import { removeIfThere, withIoFailure } from "../../../cni/io_failure.ts";
import type { Log } from "../../../cni/log.ts";
import { isOwnConf } from "../../../plugins/multus/networks/self_guard.ts";
import { findMaster, type Master, readConf, RENAMED } from "./master.ts";
import {
  FILE_NAMES,
  formatMultusConf,
  type MultusConf,
} from "./multus_conf.ts";
import { NotYetError } from "./not_yet_error.ts";
import type {
  ConfigurationOptions,
  GivenConfigurationOptions,
} from "./options.ts";
import { PlacedFile, readIfThere } from "./placed_file.ts";
import { Readiness } from "./readiness.ts";

/** A configuration that is made of the master network's. */
export class MadeConfiguration {
  readonly #options: ConfigurationOptions;
  readonly #log: Log;
  readonly #files: Readonly<Record<MultusConf["fileName"], PlacedFile>>;
  readonly #readiness: Readiness;
  readonly #skipped = new Map<string, string>();
  #master: Master | undefined;
  /** The last good one. */
  #conf: MultusConf | undefined;

  /** Nothing is read or written yet. */
  constructor(options: ConfigurationOptions, log: Log) {
    const place = (name: string): PlacedFile =>
      new PlacedFile(join(options.folder, name), log);
    this.#options = options;
    this.#log = log;
    this.#files = {
      "00-multus.conf": place("00-multus.conf"),
      "00-multus.conflist": place("00-multus.conflist"),
    };
    this.#readiness = new Readiness(options, log);
  }

  /**
   * Sees to it that it is there, and what the master network asks for.
   *
   * @throws {NotYetError} If there is no master network, or it is not ready, or
   *   somebody else keeps replacing ours
   * @throws {CniError} If the master network's configuration cannot be used, or
   *   ours not be written; the one that is there stays, and is put back
   */
  ensure(): void {
    this.#readiness.require();
    try {
      const master = this.#findMaster();
      this.#conf = formatMultusConf(master, this.#options);
      this.#noteChoice(master);
    } catch (error) {
      this.#keep();
      throw error;
    }
    this.#place(this.#conf);
    this.#renameMaster();
  }

  #findMaster(): Master {
    const { masterFolder, masterFile } = this.#options;
    const master = findMaster(
      this.#options,
      this.#master?.file,
      (path, error) => this.#noteSkipped(path, describeError(error)),
    );
    if (master !== undefined) return master;
    const what = masterFile === undefined
      ? "a master network"
      : `"${masterFile}"`;
    throw new NotYetError(`Cannot find ${what} in "${masterFolder}"`);
  }

  /** Tells of each file once, and again when something else is wrong with it. */
  #noteSkipped(path: string, reason: string): void {
    if (this.#skipped.get(path) === reason) return;
    this.#skipped.set(path, reason);
    this.#log.warn("passed over a file that is no network's", { path, reason });
  }

  #noteChoice(master: Master): void {
    const isOther = master.file !== this.#master?.file;
    this.#master = master;
    if (!isOther) return;
    const { path, name } = master;
    this.#log.info("chose the master network", { path, network: name });
  }

  /** Puts the last good one back if it has gone. */
  #keep(): void {
    this.#conf ??= FILE_NAMES.map((name) => this.#adopt(name))
      .find((conf) => conf !== undefined);
    if (this.#conf !== undefined) this.#place(this.#conf);
  }

  /** Takes a file that was made before we were started for ours. */
  #adopt(fileName: MultusConf["fileName"]): MultusConf | undefined {
    const { path } = this.#files[fileName];
    const content = isOwnFile(path) ? readIfThere(path) : undefined;
    return content === undefined ? undefined : { fileName, content };
  }

  #place({ fileName, content }: MultusConf): void {
    this.#files[fileName].ensure(content);
    for (const other of FILE_NAMES) {
      if (other !== fileName) this.#removeStale(this.#files[other].path);
    }
  }

  /** Removes what runtimes would take for ours: its name may be the first of all. */
  #removeStale(path: string): void {
    const content = readIfThere(path);
    if (content === undefined) return;
    if (content.trim() !== "" && !isOwnFile(path)) return;
    removeIfThere(path);
    this.#log.info("removed a file that is replaced by another one", { path });
  }

  #renameMaster(): void {
    const { path = "", file = "" } = this.#master ?? {};
    if (!this.#options.renamesMaster || !path.endsWith(file)) return;
    const renamed = path + RENAMED;
    withIoFailure(
      `rename "${path}" to "${renamed}"`,
      () => Deno.renameSync(path, renamed),
    );
    this.#log.info("renamed the master network's file", { path: renamed });
  }

  /**
   * Removes it, whichever name it has.
   *
   * @throws {CniError} 5 if it cannot be removed
   */
  remove(): void {
    for (const { path } of Object.values(this.#files)) {
      if (isOwnFile(path)) removeIfThere(path);
    }
  }
}

/** A configuration that somebody has written. */
export class GivenConfiguration {
  readonly #source: string;
  readonly #file: PlacedFile;

  /** Nothing is read or written yet. */
  constructor({ source, folder }: GivenConfigurationOptions, log: Log) {
    this.#source = source;
    this.#file = new PlacedFile(join(folder, basename(source)), log);
  }

  /**
   * Sees to it that the node has it, to the letter.
   *
   * @throws {CniError} 5, 6 or 7 if it cannot be read, is malformed, or cannot
   *   be written; the one that is there stays
   */
  ensure(): void {
    readConf(this.#source);
    const content = readIfThere(this.#source);
    if (content !== undefined) this.#file.ensure(content);
  }
}

/** Says whether a file is there that configures multus. */
function isOwnFile(path: string): boolean {
  try {
    return isOwnConf(readConf(path));
  } catch {
    return false;
  }
}
