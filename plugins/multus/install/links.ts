/**
 * The links that turn one executable into multus and other plugins.
 *
 * They are symbolic, because then their owner is visible, a careless copy of
 * the directory has 94 MB once and not once per link, and a new executable
 * replaces all plugins at the same moment. Their target has its own name, so
 * that another program can replace `multus` without replacing the others.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { unlessMissing, withIoFailure } from "../../../base/files/io.ts";
import { keepReplaced, replaceByLink } from "../../../base/files/replace.ts";
import type { Log } from "../../../base/log/log.ts";
import { isSameFile } from "../../../base/files/same_file.ts";
import { Contest } from "./contest.ts";
import type { ExecutableOptions } from "./options.ts";

/** The links' names and target. */
export interface LinkOptions
  extends Pick<ExecutableOptions, "directory" | "links" | "replacesOthers"> {
  /** Name of the executable in the directory. */
  readonly target: string;
  /** Directory for the files that links replace, in the directory; kept nowhere if undefined. */
  readonly kept?: string;
}

/** Links in the node's directory of plugins. */
export class Links {
  readonly #options: LinkOptions;
  readonly #log: Log;
  readonly #contests = new Map<string, Contest>();
  /** Names of links that were found or made. */
  readonly #made = new Set<string>();
  /** Names of foreign files that were kept. */
  readonly #left = new Set<string>();

  /** Nothing is read or written yet. */
  constructor(options: LinkOptions, log: Log) {
    this.#options = options;
    this.#log = log;
  }

  /**
   * Ensures that each link exists, or a foreign file that must be kept.
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
    if (this.#made.has(name)) this.#contestOf(name, path).takeTurn();
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

  #contestOf(name: string, path: string): Contest {
    const contest = this.#contests.get(name) ?? new Contest(path);
    this.#contests.set(name, contest);
    return contest;
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
    this.#log.info("left a plugin alone that is another program", { path });
  }
}
