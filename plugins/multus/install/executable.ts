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
import { unlessMissing, withIoFailure } from "../../../base/files/io.ts";
import type { Log } from "../../../base/log/log.ts";
import { haveSameContent } from "../../../base/files/same_content.ts";
import { isSameFile } from "../../../base/files/same_file.ts";
import { lockInstallation } from "../../../base/command_line/installation_lock.ts";
import { requireDirectory, RestoreLimit } from "./placed_file.ts";
import type { ExecutableOptions } from "./options.ts";
import { keepReplaced, replaceByLink } from "../../../base/files/replace.ts";

/** The name that runtimes call. */
const MULTUS = "multus";
/** The name of the executable to which it links. */
const EXECUTABLE = "cni-multus";
/**
 * The directory of the plugins that links have replaced; uninstall.yaml uses it.
 */
const KEPT = ".cni-multus";

/** The executable, and the links to it. */
export class Executable {
  readonly #options: ExecutableOptions;
  readonly #path: string;
  readonly #log: Log;
  readonly #limit: RestoreLimit;
  /** The link `multus`, which replaces any other file. */
  readonly #command: Links;
  readonly #plugins: Links;
  /** The stamps of both files when they last had the same content. */
  #same: FileStamps | undefined;
  /** The state of the copy at that time; "" before. */
  #copy = "";
  /** Whether the node runs this file itself, so that its replacement is intended. */
  #isShared: boolean | undefined;

  /** Neither reads nor writes yet. */
  constructor(options: ExecutableOptions, log: Log) {
    const { directory } = options;
    this.#options = options;
    this.#path = join(directory, EXECUTABLE);
    this.#log = log;
    this.#limit = new RestoreLimit(this.#path);
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
   * @throws {CniError} 5 if it cannot be read or written; the existing executable is
   * kept. 11 if a different installer keeps the directory locked
   */
  async ensure(): Promise<void> {
    const { directory, source } = this.#options;
    requireDirectory(directory);
    const command = join(directory, MULTUS);
    this.#isShared ??= isSameFile(source, command);
    if (this.#isShared && identify(command) !== "") return;
    // A concurrent installer would use the same temporary names.
    using _lock = await lockInstallation(directory);
    if (!await this.#isThere()) await this.#install();
    this.#command.ensure();
    this.#plugins.ensure();
  }

  /** Compares only files that might have changed since the last comparison. */
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
    if (isTaken) this.#limit.takeTurn();
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

/** The links' names and target. */
export interface LinkOptions
  extends Pick<ExecutableOptions, "directory" | "links" | "replacesOthers"> {
  /** Name of the executable in the directory. */
  readonly target: string;
  /** Subdirectory for the files that links replace; undefined to keep none. */
  readonly kept?: string;
}

/**
 * The links that make the executable available as multus and other plugins.
 *
 * They are symbolic: then their owner is visible, a careless copy of the directory
 * contains 94 MB once instead of once per link, and a new executable replaces all
 * plugins at the same time. Their target has a separate name, so that a different
 * program can replace `multus` without replacing the other plugins.
 */
export class Links {
  readonly #options: LinkOptions;
  readonly #log: Log;
  readonly #limits = new Map<string, RestoreLimit>();
  /** Names of links that were found or created. */
  readonly #made = new Set<string>();
  /** Names of foreign files that were kept. */
  readonly #left = new Set<string>();

  /** Neither reads nor writes yet. */
  constructor(options: LinkOptions, log: Log) {
    this.#options = options;
    this.#log = log;
  }

  /**
   * Ensures that each link, or a foreign file that must be kept, exists.
   *
   * @throws {NotYetError} If a link was restored too often
   * @throws {CniError} 5 if a link cannot be created
   */
  ensure(): void {
    for (const name of this.#options.links) this.#ensureOne(name);
  }

  #ensureOne(name: string): void {
    const path = join(this.#options.directory, name);
    const found = this.#look(path);
    if (found === "ours") return void this.#made.add(name);
    if (found === "other" && !this.#options.replacesOthers) {
      return this.#leave(name, path);
    }
    if (this.#made.has(name)) this.#limitOf(name, path).takeTurn();
    const { directory, target, kept } = this.#options;
    if (found === "other" && kept !== undefined) {
      withIoFailure(
        `keep "${path}"`,
        () => keepReplaced(path, join(directory, kept, name)),
      );
    }
    withIoFailure(
      `link "${path}" to "${target}"`,
      () => replaceByLink(path, target),
    );
    this.#made.add(name);
    this.#log.info("linked a plugin", { path });
  }

  #limitOf(name: string, path: string): RestoreLimit {
    const limit = this.#limits.get(name) ?? new RestoreLimit(path);
    this.#limits.set(name, limit);
    return limit;
  }

  #look(path: string): "ours" | "other" | "none" {
    const { directory, target } = this.#options;
    if (isSameFile(path, join(directory, target))) return "ours";
    return unlessMissing(() => {
      const { isSymlink } = Deno.lstatSync(path);
      return isSymlink && Deno.readLinkSync(path) === target ? "ours" : "other";
    }) ?? "none";
  }

  #leave(name: string, path: string): void {
    if (this.#left.has(name)) return;
    this.#left.add(name);
    this.#log.info("kept a plugin that is a different program", { path });
  }
}
