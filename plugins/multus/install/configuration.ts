/**
 * The configuration of multus on a node, generated from the master network's
 * configuration.
 *
 * It is never empty, and never missing while it is needed. Otherwise, a runtime would
 * use the master network's configuration, and pods would silently lose their other
 * networks.
 *
 * @module
 */

import { basename, join } from "@std/path/posix";
import { describeError } from "../../../base/error.ts";
import {
  exists,
  removeIfThere,
  withIoFailure,
} from "../../../base/files/io.ts";
import type { Log } from "../../../base/log/log.ts";
import {
  FILE_NAMES,
  findMasterFile,
  formatMultusConf,
  type Master,
  type MultusConf,
  readConf,
  RENAMED,
} from "./multus_conf.ts";
import { NotYetError } from "./steps.ts";
import {
  type ConfigurationOptions,
  type GivenConfigurationOptions,
  HOST_ROOT,
} from "./options.ts";
import { PlacedFile, readIfThere } from "./placed_file.ts";
import { isOwnConf } from "../model/delegate.ts";

/** A configuration that is generated from the master network's configuration. */
export class MadeConfiguration {
  readonly #options: ConfigurationOptions;
  readonly #log: Log;
  readonly #files: Readonly<Record<MultusConf["fileName"], PlacedFile>>;
  readonly #readiness: Readiness;
  readonly #skipped = new Map<string, string>();
  #master: Master | undefined;
  /** The last valid configuration. */
  #conf: MultusConf | undefined;

  /** Neither reads nor writes yet. */
  constructor(options: ConfigurationOptions, log: Log) {
    const place = (name: string): PlacedFile =>
      new PlacedFile(join(options.directory, name), log);
    this.#options = options;
    this.#log = log;
    this.#files = {
      "00-multus.conf": place("00-multus.conf"),
      "00-multus.conflist": place("00-multus.conflist"),
    };
    this.#readiness = new Readiness(options, log);
  }

  /**
   * Ensures that the configuration exists and matches the master network.
   *
   * @throws {NotYetError} If the master network is missing or not ready, or a
   * different program keeps replacing the configuration
   * @throws {CniError} If the master network's configuration is unusable, or multus'
   * configuration cannot be written; the existing configuration is kept, and restored
   * if necessary
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
    const { masterDirectory, masterFile } = this.#options;
    const master = findMasterFile(
      this.#options,
      this.#master?.file,
      (path, error) => this.#noteSkipped(path, describeError(error)),
    );
    if (master !== undefined) return master;
    const what = masterFile === undefined
      ? "a master network"
      : `"${masterFile}"`;
    throw new NotYetError(`Cannot find ${what} in "${masterDirectory}"`);
  }

  /** Logs each file once, and again if its reason changes. */
  #noteSkipped(path: string, reason: string): void {
    if (this.#skipped.get(path) === reason) return;
    this.#skipped.set(path, reason);
    this.#log.warn("skipped a file that is not a network", { path, reason });
  }

  #noteChoice(master: Master): void {
    const isOther = master.file !== this.#master?.file;
    this.#master = master;
    if (!isOther) return;
    const { path, name } = master;
    this.#log.info("chose the master network", { path, network: name });
  }

  /** Restores the last valid configuration if it is missing. */
  #keep(): void {
    this.#conf ??= FILE_NAMES.map((name) => this.#adopt(name))
      .find((conf) => conf !== undefined);
    if (this.#conf !== undefined) this.#place(this.#conf);
  }

  /** Adopts a file that an earlier run wrote. */
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

  /** Removes our file with the other name, which runtimes might load first. */
  #removeStale(path: string): void {
    const content = readIfThere(path);
    if (content === undefined) return;
    if (content.trim() !== "" && !isOwnFile(path)) return;
    removeIfThere(path);
    this.#log.info("removed an outdated file", { path });
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
   * Removes the configuration under both names.
   *
   * @throws {CniError} 5 if it cannot be removed
   */
  remove(): void {
    for (const { path } of Object.values(this.#files)) {
      if (isOwnFile(path)) removeIfThere(path);
    }
  }
}

/** A configuration that the user provides. */
export class GivenConfiguration {
  readonly #source: string;
  readonly #file: PlacedFile;

  /** Neither reads nor writes yet. */
  constructor({ source, directory }: GivenConfigurationOptions, log: Log) {
    this.#source = source;
    this.#file = new PlacedFile(join(directory, basename(source)), log);
  }

  /**
   * Ensures that the node has an exact copy of the configuration.
   *
   * @throws {CniError} 5, 6 or 7 if it cannot be read, is malformed, or cannot be
   * written; the existing configuration is kept
   */
  ensure(): void {
    readConf(this.#source);
    const content = readIfThere(this.#source);
    if (content !== undefined) this.#file.ensure(content);
  }
}

/** Reports whether a file exists and configures multus. */
function isOwnFile(path: string): boolean {
  try {
    return isOwnConf(readConf(path));
  } catch {
    return false;
  }
}

/** Waits until the readiness file exists, or until a timeout. */
export class Readiness {
  readonly #path: string;
  readonly #endMs: number;
  readonly #timeoutMs: number;
  readonly #log: Log;
  #isOver: boolean;

  /** Starts the timeout. */
  constructor(
    { readinessFile, readinessTimeoutMs }: Pick<
      ConfigurationOptions,
      "readinessFile" | "readinessTimeoutMs"
    >,
    log: Log,
  ) {
    this.#path = readinessFile;
    this.#timeoutMs = readinessTimeoutMs;
    this.#endMs = performance.now() + readinessTimeoutMs;
    this.#log = log;
    this.#isOver = readinessFile === "";
  }

  /**
   * Returns if there is nothing left to wait for. After the first success, it always
   * returns, because multus itself checks before each pod whether the file still
   * exists.
   *
   * @throws {NotYetError} If the file does not exist
   */
  require(): void {
    if (this.#isOver) return;
    // A container can see it at the node's path, or below the mounted root of the
    // node. An inaccessible path counts as missing.
    const isThere = [this.#path, HOST_ROOT + this.#path]
      .some(exists);
    if (!isThere && performance.now() < this.#endMs) {
      throw new NotYetError(
        `Cannot write a configuration: "${this.#path}" does not exist yet`,
      );
    }
    this.#isOver = true;
    if (isThere || this.#timeoutMs === 0) return;
    this.#log.warn("continued without the readiness indicator file", {
      path: this.#path,
      waitedMs: this.#timeoutMs,
    });
  }
}
