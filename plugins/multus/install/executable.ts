/**
 * The executable on the node, and its links.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { CniError, ErrorCode } from "../../../base/error.ts";
import { copyLibraries } from "../../../base/files/libraries.ts";
import { copyExecutable } from "../../../base/files/copy_executable.ts";
import { FileStamps } from "../../../base/files/file_stamps.ts";
import { unlessMissing } from "../../../base/files/io.ts";
import type { Log } from "../../../base/log/log.ts";
import { haveSameContent } from "../../../base/files/same_content.ts";
import { isSameFile } from "../../../base/files/same_file.ts";
import { lockInstallation } from "../../../base/command_line/installation_lock.ts";
import { Contest } from "./contest.ts";
import { Links } from "./links.ts";
import { requireDirectory } from "./placed_file.ts";
import type { ExecutableOptions } from "./options.ts";

/** The name that runtimes call. */
const MULTUS = "multus";
/** The name of the executable that it links to. */
const EXECUTABLE = "cni-multus";
/** The directory of the plugins that links have replaced; uninstall.yaml knows it. */
const KEPT = ".cni-multus";

/** The executable, and the links to it. */
export class Executable {
  readonly #options: ExecutableOptions;
  readonly #path: string;
  readonly #log: Log;
  readonly #contest: Contest;
  /** `multus`, which replaces any other file. */
  readonly #command: Links;
  readonly #plugins: Links;
  /** Of both files, when they last had the same content. */
  #same: FileStamps | undefined;
  /** The copy as it was then; "" before. */
  #copy = "";
  /** Whether the node runs this very file. A replacement of it is intended. */
  #isShared: boolean | undefined;

  /** Nothing is read or written yet. */
  constructor(options: ExecutableOptions, log: Log) {
    const { directory } = options;
    this.#options = options;
    this.#path = join(directory, EXECUTABLE);
    this.#log = log;
    this.#contest = new Contest(this.#path);
    this.#command = new Links({
      directory,
      target: EXECUTABLE,
      links: [MULTUS],
      replacesOthers: true,
    }, log);
    this.#plugins = new Links({
      ...options,
      target: EXECUTABLE,
      kept: KEPT,
    }, log);
  }

  /**
   * Ensures that the executable and its links exist.
   *
   * @throws {NotYetError} If it was restored too often
   * @throws {CniError} 5 if it cannot be read or written; the existing one
   *   stays. 11 if another installer keeps the directory locked
   */
  async ensure(): Promise<void> {
    const { directory, source } = this.#options;
    requireDirectory(directory);
    const command = join(directory, MULTUS);
    this.#isShared ??= isSameFile(source, command);
    if (this.#isShared && identify(command) !== "") return;
    // Another installer would use the same temporary names.
    using _lock = await lockInstallation(directory);
    if (!await this.#isThere()) await this.#install();
    this.#command.ensure();
    this.#plugins.ensure();
  }

  /** Compares only files that may have changed since the last comparison. */
  async #isThere(): Promise<boolean> {
    if (this.#same?.isCurrent()) return true;
    const { source } = this.#options;
    const stamps = new FileStamps();
    stamps.add([source, this.#path]);
    const copy = identify(this.#path);
    const isSame = await tellIoFailure(
      `compare "${source}" with "${this.#path}"`,
      haveSameContent(source, this.#path),
    );
    if (isSame) [this.#same, this.#copy] = [stamps, copy];
    return isSame;
  }

  async #install(): Promise<void> {
    const { source } = this.#options;
    const isTaken = this.#copy !== "" && identify(this.#path) !== this.#copy;
    if (isTaken) this.#contest.takeTurn();
    await tellIoFailure(
      `copy the libraries of "${source}" to "${this.#options.directory}"`,
      copyLibraries(source, this.#options.directory),
    );
    await tellIoFailure(
      `copy "${source}" to "${this.#path}"`,
      copyExecutable(
        source,
        this.#path,
        (copy) => this.#copy = identify(copy),
      ),
    );
    const fields = { path: this.#path };
    if (isTaken) this.#log.warn("restored the executable", fields);
    else this.#log.info("installed the executable", fields);
  }
}

/** Identifies a state of a file; "" if it does not exist. */
function identify(path: string): string {
  const info = unlessMissing(() => Deno.statSync(path));
  if (info === undefined) return "";
  const { dev, ino, size, mtime } = info;
  return [dev, ino, size, mtime?.getTime()].join(":");
}

async function tellIoFailure<T>(action: string, over: Promise<T>): Promise<T> {
  try {
    return await over;
  } catch (error) {
    throw new CniError(ErrorCode.IoFailure, `Cannot ${action}`, {
      cause: error,
    });
  }
}
