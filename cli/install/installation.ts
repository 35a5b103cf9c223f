/**
 * A directory of plugins in which this executable is installed: the file `cni`,
 * and a link or a copy for each plugin.
 *
 * ```
 * /opt/cni/bin/cni                           the executable
 * /opt/cni/bin/ptp → cni                     a link (or a copy)
 * /opt/cni/bin/.cni-install/installed.json   what was installed
 * /opt/cni/bin/.cni-install/replaced/ptp     the file that was replaced
 * /opt/cni/bin/.cni-install/others/cni       another program's `cni`, which is still called
 * ```
 *
 * `cni` may be the executable of another project, to which its plugins are linked. Links
 * that this installation leaves alone are repointed to `others/cni`, so that they run
 * what they ran before.
 *
 * Every name exists at all times, with its old or its new file, so that
 * runtimes can keep calling plugins. A replaced file is kept by a hard link,
 * which costs no space and no time.
 *
 * @module
 */

import { basename, dirname, join, resolve } from "@std/path/posix";
import {
  copyExecutable,
  nameUnfinished,
} from "../../base/files/copy_executable.ts";
import { lockInstallation } from "../../base/command_line/installation_lock.ts";
import {
  ifPossible,
  removeIfThere,
  removeQuietly,
  unlessMissing,
  withIoFailure,
} from "../../base/files/io.ts";
import {
  keepReplaced,
  replaceByLink,
  replaceFile,
} from "../../base/files/replace.ts";
import {
  digestContent,
  haveSameContent,
} from "../../base/files/same_content.ts";
import { checkWritable, MAX_LINKS } from "../../ffi/file/file_system.ts";
import { isObject, parseJson } from "../../base/json/json.ts";

/** The name of the executable, to which plugins are linked. */
export const EXECUTABLE = "cni";

/** The effect of installing on a name. */
export type Change =
  | "installed"
  | "updated"
  | "replaced"
  | "unchanged"
  /** A link of another program, which leads to its executable's new place. */
  | "repointed";

/** The effect of removing on a name. */
export type Undone = "restored" | "removed" | "kept";

/** How a plugin becomes a file of its own. */
export type Form = "link" | "copy";

/**
 * Installed files: identities by name, one a line. A file is recognized by any of them,
 * and a copy has its content's digest as well: in a node made from an image, or one that
 * was restored, the content is the same, but not the inode.
 */
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
  readonly #lock: Disposable;
  readonly #installed: Installed;
  /**
   * Whether `cni` belonged to this project at the beginning: then links to it
   * do as well.
   */
  #hasOwnLinks = false;
  /** That of the executable, once it is known. */
  #digest: string | undefined;

  private constructor(directory: string, lock: Disposable) {
    this.#directory = directory;
    this.#lock = lock;
    this.#installed = readInstalled(this.#ownPath("installed.json"));
  }

  /**
   * Opens a directory. Waits for another `cni install`.
   *
   * @param source An executable of this project: a copy that was put in place
   * by other means belongs to this project
   * @throws {CniError} 11 if the other installation does not finish
   */
  static async open(
    directory: string,
    source?: string,
  ): Promise<Installation> {
    const lock = await lockInstallation(directory);
    try {
      const installation = new Installation(directory, lock);
      await installation.#recognizeContent();
      installation.#hasOwnLinks = installation.#isOurs(EXECUTABLE) ||
        source !== undefined &&
          await haveSameContent(source, join(directory, EXECUTABLE));
      return installation;
    } catch (error) {
      lock[Symbol.dispose]();
      throw error;
    }
  }

  /**
   * Lists links of other programs that would run something else after changes: those
   * that lead to or through a file which is replaced.
   */
  listOtherLinks(changes: ReadonlyMap<string, Change>): string[] {
    return [...Deno.readDirSync(this.#directory)]
      .filter(({ isSymlink, name }) =>
        isSymlink && !changes.has(name) && !this.#isOurs(name) &&
        this.#findTarget(name, changes) !== undefined
      )
      .map(({ name }) => name)
      .sort();
  }

  /**
   * Prepares for changes: repoints the links of {@linkcode listOtherLinks}, and
   * keeps other programs' links to `cni`. A crash after `cni` is replaced must
   * not make these links look like this project's.
   */
  prepare(changes: ReadonlyMap<string, Change>): void {
    const links = this.listOtherLinks(changes)
      .map((name) => [name, this.#findTarget(name, changes) ?? ""] as const);
    for (const [name, target] of links) {
      const path = this.#path(name);
      keepReplaced(path, this.#keptPath(name));
      if (target.startsWith(OTHERS)) this.#keepOther(basename(target));
      this.#record(name, linkTo(target));
      replaceByLink(path, target);
    }
    for (const [name, change] of changes) {
      const isToCni = identify(this.#path(name)) === LINK;
      if (change !== "replaced" || !isToCni) continue;
      keepReplaced(this.#path(name), this.#keptPath(name));
      this.#record(name, LINK);
    }
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
    const isSame = form === "link" && name !== EXECUTABLE
      ? found === LINK && this.#isOurs(name)
      : found !== LINK && await haveSameContent(source, path);
    if (isSame) return "unchanged";
    return this.#isOurs(name) ? "updated" : "replaced";
  }

  /**
   * Puts the executable, a link or a copy in place, and keeps the replaced file.
   *
   * @param change What {@linkcode compare} said before {@linkcode prepare}
   */
  async install(
    source: string,
    name: string,
    form: Form,
    change: Change,
  ): Promise<void> {
    const path = this.#path(name);
    if (change === "replaced") keepReplaced(path, this.#keptPath(name));
    if (form === "link" && name !== EXECUTABLE) {
      this.#expect(name, LINK);
      if (change !== "unchanged") replaceByLink(path, EXECUTABLE);
      return this.#record(name, LINK);
    }
    const digest = this.#digest ??= await digestContent(source);
    const describe = (copy: string): string => `${identify(copy)}\n${digest}`;
    if (change !== "unchanged") {
      await copyExecutable(
        source,
        path,
        (copy) => this.#expect(name, describe(copy)),
      );
    }
    this.#record(name, describe(path));
  }

  /**
   * Lists what {@linkcode install} has put in place, other links to the executable that
   * would lead nowhere without it, and links that {@linkcode prepare} repointed, in the
   * order in which they can be undone: plugins, the executable, links of other programs.
   */
  list(): string[] {
    const isKept = identify(this.#keptPath(EXECUTABLE)) !== undefined;
    const links = isKept ? [] : [...Deno.readDirSync(this.#directory)]
      .map(({ name }) => name)
      .filter((name) =>
        identify(this.#path(name)) === LINK && this.#isOurs(name)
      );
    const names = [...new Set([...Object.keys(this.#installed), ...links])]
      .sort();
    const rank = (name: string): number =>
      this.#isRepointed(name) ? 2 : name === EXECUTABLE ? 1 : 0;
    return names.toSorted((one, other) => rank(one) - rank(other));
  }

  /** Lists what {@linkcode install} has put in place and can be taken away alone. */
  listPlugins(): string[] {
    return this.list().filter((name) => !this.#isRepointed(name));
  }

  /** Returns what {@linkcode undo} would do. */
  compareUndo(name: string): Undone {
    if (!this.#isOurs(name)) return "kept";
    const isKept = identify(this.#keptPath(name)) !== undefined;
    if (isKept) return "restored";
    // It was there before, even if what is kept was deleted.
    return this.#isRepointed(name) ? "kept" : "removed";
  }

  /** Restores the file that was replaced, or removes this project's file. */
  undo(name: string): Undone {
    const undone = this.compareUndo(name);
    const path = this.#path(name);
    if (undone === "restored") Deno.renameSync(this.#keptPath(name), path);
    if (undone === "removed") removeIfThere(path);
    // A crash might have left it.
    removeQuietly(nameUnfinished(path));
    this.#record(name, undefined);
    return undone;
  }

  /** Ends the installation, when everything is undone. Files that links need stay. */
  forget(): void {
    const isNeeded = [...Deno.readDirSync(this.#directory)]
      .some(({ name }) =>
        identify(this.#path(name))?.startsWith(linkTo(OTHERS))
      );
    const paths = isNeeded
      ? [this.#ownPath("installed.json"), this.#ownPath("replaced")]
      : [this.#ownPath()];
    for (const path of paths) {
      unlessMissing(() => Deno.removeSync(path, { recursive: true }));
    }
  }

  /** Unlocks the directory. */
  [Symbol.dispose](): void {
    this.#lock[Symbol.dispose]();
  }

  #path(name: string): string {
    return join(this.#directory, name);
  }

  #ownPath(...names: readonly string[]): string {
    return join(this.#directory, OWN, ...names);
  }

  #keptPath(name: string): string {
    return this.#ownPath("replaced", name);
  }

  #isOurs(name: string): boolean {
    const found = identify(this.#path(name));
    if (found === undefined) return false;
    return this.#listKnown(name).includes(found) ||
      found === LINK && this.#hasOwnLinks;
  }

  /** Lists the identities by which a name is recognized. */
  #listKnown(name: string): string[] {
    return this.#installed[name]?.split("\n") ?? [];
  }

  /** Recognizes copies that are other files now, with the same content. */
  async #recognizeContent(): Promise<void> {
    for (const name of Object.keys(this.#installed)) {
      const path = this.#path(name), found = identify(path);
      if (found === undefined || isLink(found) || this.#isOurs(name)) continue;
      // One that cannot be read is another program's.
      const digest = await digestContent(path).catch(() => undefined);
      const isOurs = digest && this.#listKnown(name).includes(digest);
      if (isOurs) this.#installed[name] += `\n${found}`;
    }
  }

  /** Reports whether a name is a link of another program that leads elsewhere than before. */
  #isRepointed(name: string): boolean {
    const known = this.#listKnown(name), found = identify(this.#path(name));
    const identity = known.find((one) => one === found) ?? known.at(-1) ?? "";
    return isLink(identity) && identity !== LINK;
  }

  /**
   * Finds where a link must lead in order to run what it runs now, after changes;
   * undefined if it does not lead to a file that is replaced.
   */
  #findTarget(
    name: string,
    changes: ReadonlyMap<string, Change>,
  ): string | undefined {
    const directory = Deno.realPathSync(this.#directory);
    let found: string | undefined;
    let [parent, last, isReplaced] = [directory, name, false];
    for (let hops = 0; hops < MAX_LINKS; hops++) {
      const path = join(parent, last);
      const target = ifPossible(() => Deno.readLinkSync(path));
      if (target === undefined) return found;
      // It is next to the link.
      if (isReplaced) found = target;
      const next = target.startsWith("/") ? target : `${parent}/${target}`;
      const real = ifPossible(() => Deno.realPathSync(dirname(next)));
      if (real === undefined) return found;
      [parent, last] = [real, basename(next)];
      isReplaced = parent === directory && changes.get(last) === "replaced";
      if (isReplaced) found = `${OTHERS}${last}`;
    }
    return undefined;
  }

  /** Keeps another program's file where links to it can lead. */
  #keepOther(name: string): void {
    keepReplaced(this.#path(name), join(this.#directory, OTHERS, name));
  }

  /**
   * Records what a name will be, beside what it is: a crash must make neither file look
   * foreign.
   */
  #expect(name: string, identity: string): void {
    const known = [...this.#listKnown(name), ...identity.split("\n")];
    this.#record(name, [...new Set(known)].join("\n"));
  }

  /** Records what a name is. */
  #record(name: string, identity: string | undefined): void {
    if (this.#installed[name] === identity) return;
    if (identity === undefined) delete this.#installed[name];
    else this.#installed[name] = identity;
    const text = `${JSON.stringify(this.#installed, null, 2)}\n`;
    const path = this.#ownPath("installed.json");
    replaceFile(path, new TextEncoder().encode(text), 0o644);
  }
}

/** The directory of what an installation keeps. */
const OWN = ".cni-install";

/** Other programs' files that links still lead to. */
const OTHERS = `${OWN}/others/`;

/** Identity of a link. */
function linkTo(target: string): string {
  return `link to ${target}`;
}

/** Identity of a link to the executable. */
const LINK = linkTo(EXECUTABLE);

/** Reports whether an identity belongs to a link. */
function isLink(identity: string): boolean {
  return identity.startsWith(linkTo(""));
}

/** Identifies a state of a file; undefined if it does not exist. */
function identify(path: string): string | undefined {
  return unlessMissing(() => {
    const { isSymlink, ino, size, mtime } = Deno.lstatSync(path);
    if (isSymlink) return linkTo(Deno.readLinkSync(path));
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
