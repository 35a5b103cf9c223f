/**
 * A directory of plugins in which this executable is installed: the file `cni`,
 * and a link or a copy for each plugin.
 *
 * ```
 * /opt/cni/bin/cni                           the executable
 * /opt/cni/bin/ptp → cni                     a link (or a copy)
 * /opt/cni/bin/.cni-install/installed.json   what was installed
 * /opt/cni/bin/.cni-install/replaced/ptp     the file that was replaced
 * ```
 *
 * Every name exists at all times, with its old or its new file, so that
 * runtimes can call plugins meanwhile. A replaced file is kept by a hard link,
 * which costs no space and no time.
 *
 * @module
 */

import { dirname, join, resolve } from "@std/path/posix";
import { copyExecutable } from "../../cni/files/copy_executable.ts";
import { FileLock } from "../../cni/files/lock.ts";
import {
  removeIfThere,
  unlessMissing,
  withIoFailure,
} from "../../cni/files/io.ts";
import {
  keepReplaced,
  replaceByLink,
  replaceFile,
} from "../../cni/files/replace.ts";
import { haveSameContent } from "../../cni/files/same_content.ts";
import { checkWritable } from "../../ffi/file_system.ts";
import { isObject, parseJson } from "../../cni/json/json.ts";

/** The name of the executable, to which plugins are linked. */
export const EXECUTABLE = "cni";

/** The effect of installing on a name. */
export type Change = "installed" | "updated" | "replaced" | "unchanged";

/** The effect of removing on a name. */
export type Undone = "restored" | "removed" | "kept";

/** How a plugin becomes a file of its own. */
export type Form = "link" | "copy";

/** Installed files: identities of files by name. */
type Installed = Record<string, string>;

/**
 * Requires that a directory can be written, or created if it does not exist.
 *
 * @throws {CniError} 5
 */
export function requireWritable(directory: string): void {
  withIoFailure(`write to "${directory}"`, () => {
    let existing = resolve(directory);
    while (unlessMissing(() => Deno.lstatSync(existing)) === undefined) {
      existing = dirname(existing);
    }
    checkWritable(existing);
  });
}

/** A directory of plugins, locked until it is disposed of. */
export class Installation implements Disposable {
  readonly #directory: string;
  readonly #lock: FileLock;
  readonly #installed: Installed;

  private constructor(directory: string, lock: FileLock) {
    this.#directory = directory;
    this.#lock = lock;
    this.#installed = readInstalled(this.#ownPath("installed.json"));
  }

  /**
   * Opens a directory. Waits for another `cni install`.
   *
   * @throws {CniError} 11 if that does not end
   */
  static async open(directory: string): Promise<Installation> {
    const lock = await FileLock.acquireExisting(directory);
    return new Installation(directory, lock);
  }

  /**
   * Returns what {@linkcode install} would change.
   *
   * @throws {CniError} 5 if the name is a directory
   */
  async compare(source: string, name: string, form: Form): Promise<Change> {
    const path = this.#path(name);
    const found = identify(path);
    if (found === undefined) return "installed";
    withIoFailure(`replace "${path}"`, () => {
      if (Deno.lstatSync(path).isDirectory) {
        throw new Error("it is a directory");
      }
    });
    const isLink = form === "link" && name !== EXECUTABLE;
    const isSame = isLink
      ? found === LINK
      : found !== LINK && await haveSameContent(source, path);
    if (isSame) return "unchanged";
    return this.#isOurs(name) ? "updated" : "replaced";
  }

  /** Puts the executable, a link or a copy in place, and keeps what it replaces. */
  async install(source: string, name: string, form: Form): Promise<Change> {
    const change = await this.compare(source, name, form);
    const path = this.#path(name);
    if (change === "replaced") keepReplaced(path, this.#keptPath(name));
    if (change === "unchanged") {
      this.#note(name, identify(path));
    } else if (form === "link" && name !== EXECUTABLE) {
      this.#note(name, LINK);
      replaceByLink(path, EXECUTABLE);
    } else {
      await copyExecutable(
        source,
        path,
        (copy) => this.#note(name, identify(copy)),
      );
    }
    return change;
  }

  /**
   * Lists what is installed: what {@linkcode install} has put in place, and other
   * links to the executable. The executable is last.
   */
  list(): string[] {
    const links = [...Deno.readDirSync(this.#directory)]
      .filter(({ isSymlink, name }) =>
        isSymlink && identify(this.#path(name)) === LINK
      )
      .map(({ name }) => name);
    const names = new Set([...Object.keys(this.#installed), ...links].sort());
    const isExecutable = names.delete(EXECUTABLE);
    return isExecutable ? [...names, EXECUTABLE] : [...names];
  }

  /** Returns what {@linkcode undo} would do. */
  compareUndo(name: string): Undone {
    if (!this.#isOurs(name)) return "kept";
    const isKept = identify(this.#keptPath(name)) !== undefined;
    return isKept ? "restored" : "removed";
  }

  /** Restores the file that was replaced, or removes ours. */
  undo(name: string): Undone {
    const undone = this.compareUndo(name);
    const path = this.#path(name);
    if (undone === "restored") Deno.renameSync(this.#keptPath(name), path);
    if (undone === "removed") removeIfThere(path);
    this.#note(name, undefined);
    return undone;
  }

  /** Ends the installation, when everything is undone. */
  forget(): void {
    unlessMissing(() => Deno.removeSync(this.#ownPath(), { recursive: true }));
  }

  /** Unlocks the directory. */
  [Symbol.dispose](): void {
    this.#lock[Symbol.dispose]();
  }

  #path(name: string): string {
    return join(this.#directory, name);
  }

  #ownPath(...names: readonly string[]): string {
    return join(this.#directory, ".cni-install", ...names);
  }

  #keptPath(name: string): string {
    return this.#ownPath("replaced", name);
  }

  #isOurs(name: string): boolean {
    const found = identify(this.#path(name));
    return found === LINK ||
      found !== undefined && found === this.#installed[name];
  }

  /** Notes what a name is before it is so: a crash must not make ours foreign. */
  #note(name: string, identity: string | undefined): void {
    if (this.#installed[name] === identity) return;
    if (identity === undefined) delete this.#installed[name];
    else this.#installed[name] = identity;
    const text = `${JSON.stringify(this.#installed, null, 2)}\n`;
    const path = this.#ownPath("installed.json");
    replaceFile(path, new TextEncoder().encode(text), 0o644);
  }
}

/** Identity of a link to the executable. */
const LINK = `link to ${EXECUTABLE}`;

/** Identifies a state of a file; undefined if it does not exist. */
function identify(path: string): string | undefined {
  return unlessMissing(() => {
    const { isSymlink, ino, size, mtime } = Deno.lstatSync(path);
    if (isSymlink && Deno.readLinkSync(path) === EXECUTABLE) return LINK;
    return [ino, size, mtime?.getTime()].join(":");
  });
}

function readInstalled(path: string): Installed {
  const text = unlessMissing(() => Deno.readTextFileSync(path));
  const document = parseJson(text ?? "{}", `"${path}"`);
  if (!isObject(document)) throw new Error(`"${path}" is not an object`);
  return Object.fromEntries(
    Object.entries(document).map(([name, value]) => [name, String(value)]),
  );
}
