/**
 * A directory of network configurations, such as /etc/cni/net.d.
 *
 * @module
 */

import { dirname } from "@std/path/posix";

/** The files of a directory by path: text, or what becomes JSON. */
export type ConfFiles = Readonly<Record<string, string | object>>;

/** A temporary directory. */
export class ConfDirectory implements Disposable {
  /** Where it is. */
  readonly path: string = Deno.makeTempDirSync({ prefix: "cni-test-" });

  /** Creates the directory with its files, and the directories that these are in. */
  constructor(files: ConfFiles = {}) {
    for (const [name, content] of Object.entries(files)) {
      this.add(name, content);
    }
  }

  /**
   * Adds a file.
   *
   * @returns Its path
   */
  add(name: string, content: string | object): string {
    const path = `${this.path}/${name}`;
    Deno.mkdirSync(dirname(path), { recursive: true });
    const text = typeof content === "string"
      ? content
      : JSON.stringify(content);
    Deno.writeTextFileSync(path, text);
    return path;
  }

  /** Adds a symbolic link. */
  addLink(name: string, target: string): void {
    Deno.symlinkSync(target, `${this.path}/${name}`);
  }

  /** Removes the directory with its content. */
  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}
