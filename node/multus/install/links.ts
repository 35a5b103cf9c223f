/**
 * The links by which one executable is multus and other plugins.
 *
 * They are symbolic: one can tell whose they are, who copies the folder without
 * care copies 94 MB once and not once for each, and a new executable is all of
 * them at the same moment. What they lead to has a name of its own, so that
 * another program may become `multus` without becoming the others.
 *
 * @module
 */

import { join } from "@std/path/posix";
import {
  removeQuietly,
  unlessMissing,
  withIoFailure,
} from "../../../cni/io_failure.ts";
import type { Log } from "../../../cni/log.ts";
import { isSameFile } from "../../../cni/same_file.ts";
import { Contest } from "./contest.ts";
import type { ExecutableOptions } from "./options.ts";

/** What links lead to, and which there shall be. */
export interface LinkOptions
  extends Pick<ExecutableOptions, "folder" | "links" | "replacesOthers"> {
  /** Name of the executable in the folder. */
  readonly target: string;
}

/** Links in the node's folder of plugins. */
export class Links {
  readonly #options: LinkOptions;
  readonly #log: Log;
  readonly #contests = new Map<string, Contest>();
  /** Names of links that were there. */
  readonly #made = new Set<string>();
  /** Names of files that were left alone. */
  readonly #left = new Set<string>();

  /** Nothing is read or written yet. */
  constructor(options: LinkOptions, log: Log) {
    this.#options = options;
    this.#log = log;
  }

  /**
   * Sees to it that each link is there, or something that is not ours to
   * replace.
   *
   * @throws {NotYetError} If one is put back too often
   * @throws {CniError} 5 if one cannot be made
   */
  ensure(): void {
    for (const name of this.#options.links) this.#ensureOne(name);
  }

  #ensureOne(name: string): void {
    const path = join(this.#options.folder, name);
    const found = this.#look(path);
    if (found === "ours") return void this.#made.add(name);
    if (found === "other" && !this.#options.replacesOthers) {
      return this.#leave(name, path);
    }
    if (this.#made.has(name)) this.#contestOf(name, path).takeTurn();
    const { target } = this.#options;
    withIoFailure(
      `link "${path}" to "${target}"`,
      () => replaceByLink(path, target),
    );
    this.#made.add(name);
    this.#log.info("linked a plugin to the executable", { path });
  }

  #contestOf(name: string, path: string): Contest {
    const contest = this.#contests.get(name) ?? new Contest(path);
    this.#contests.set(name, contest);
    return contest;
  }

  #look(path: string): "ours" | "other" | "none" {
    const { folder, target } = this.#options;
    if (isSameFile(path, join(folder, target))) return "ours";
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

/** Makes a link in place of what is there, which is never missing meanwhile. */
function replaceByLink(path: string, target: string): void {
  const unfinished = `${path}.unfinished`;
  // It may have been left by a crash.
  removeQuietly(unfinished);
  Deno.symlinkSync(target, unfinished);
  Deno.renameSync(unfinished, path);
}
