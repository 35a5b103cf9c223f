/**
 * The executable on the node, and the links by which it is multus.
 *
 * It gets there by rename(2), complete and closed: one that is running is not
 * written to, and one that is being written is not run ("text file busy").
 *
 * @module
 */

import { basename, dirname, join } from "@std/path/posix";
import { CniError, ErrorCode } from "../../../cni/error.ts";
import { removeQuietly, unlessMissing } from "../../../cni/io_failure.ts";
import type { Log } from "../../../cni/log.ts";
import { haveSameContent } from "../../../cni/same_content.ts";
import { isSameFile } from "../../../cni/same_file.ts";
import { Contest } from "./contest.ts";
import { Links } from "./links.ts";
import { requireFolder } from "./node_folder.ts";
import type { ExecutableOptions } from "./options.ts";

/** What a runtime calls. */
const MULTUS = "multus";
/** What the executable is called that it leads to. */
const EXECUTABLE = "cni-multus";

/** States of the file that is copied and of the copy. */
interface Twins {
  readonly source: string;
  readonly target: string;
}

/** The executable, and the links to it. */
export class Executable {
  readonly #options: ExecutableOptions;
  readonly #path: string;
  readonly #log: Log;
  readonly #contest: Contest;
  /** `multus` is ours whatever it was. */
  readonly #command: Links;
  readonly #plugins: Links;
  /** What the two files were when they had the same content. */
  #same: Twins = { source: "", target: "" };
  /** The node runs the very file that we are: who replaces it means to. */
  #isShared: boolean | undefined;

  /** Nothing is read or written yet. */
  constructor(options: ExecutableOptions, log: Log) {
    const { folder } = options;
    this.#options = options;
    this.#path = join(folder, EXECUTABLE);
    this.#log = log;
    this.#contest = new Contest(this.#path);
    this.#command = new Links({
      folder,
      target: EXECUTABLE,
      links: [MULTUS],
      replacesOthers: true,
    }, log);
    this.#plugins = new Links({ ...options, target: EXECUTABLE }, log);
  }

  /**
   * Sees to it that the node has it.
   *
   * @throws {NotYetError} If it is put back too often
   * @throws {CniError} 5 if it cannot be read or written; the one that is there
   *   stays
   */
  async ensure(): Promise<void> {
    const { folder, source } = this.#options;
    requireFolder(folder);
    const command = join(folder, MULTUS);
    this.#isShared ??= isSameFile(source, command);
    if (this.#isShared && identify(command) !== "") return;
    // Another installer would have the same names for what is unfinished.
    using lock = await Deno.open(folder, { read: true });
    await lock.lock(true);
    if (!await this.#isThere()) await this.#install();
    this.#command.ensure();
    this.#plugins.ensure();
  }

  /** Only files that have changed since are compared. */
  async #isThere(): Promise<boolean> {
    const twins = this.#identify();
    const { source, target } = this.#same;
    if (twins.source === source && twins.target === target) return true;
    const isSame = await tellIoFailure(
      `compare "${this.#options.source}" with "${this.#path}"`,
      haveSameContent(this.#options.source, this.#path),
    );
    if (isSame) this.#same = twins;
    return isSame;
  }

  #identify(): Twins {
    const { source } = this.#options;
    return { source: identify(source), target: identify(this.#path) };
  }

  async #install(): Promise<void> {
    const { source } = this.#options;
    const { target } = this.#same;
    const isTaken = target !== "" && identify(this.#path) !== target;
    if (isTaken) this.#contest.takeTurn();
    // Before it is read: what takes its place meanwhile is not what was copied.
    const copied = identify(source);
    const made = await tellIoFailure(
      `copy "${source}" to "${this.#path}"`,
      copy(source, this.#path),
    );
    this.#same = { source: copied, target: made };
    const fields = { path: this.#path };
    if (isTaken) this.#log.warn("put the executable back", fields);
    else this.#log.info("installed the executable", fields);
  }
}

/** Names a state of a file; "" if there is none. */
function identify(path: string): string {
  const info = unlessMissing(() => Deno.statSync(path));
  if (info === undefined) return "";
  const { dev, ino, size, mtime } = info;
  return [dev, ino, size, mtime?.getTime()].join(":");
}

/**
 * Copies an executable, whole or not at all.
 *
 * @returns What names the state of the copy
 */
async function copy(source: string, path: string): Promise<string> {
  const unfinished = join(dirname(path), `.${basename(path)}.unfinished`);
  try {
    removeQuietly(unfinished);
    await Deno.copyFile(source, unfinished);
    await Deno.chmod(unfinished, 0o755);
    await flush(unfinished);
    const made = identify(unfinished);
    await Deno.rename(unfinished, path);
    return made;
  } catch (error) {
    removeQuietly(unfinished);
    throw error;
  }
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

/** Has the content on disk, before its name is. */
async function flush(path: string): Promise<void> {
  using file = await Deno.open(path, { read: true });
  await file.sync();
}
