/**
 * Plugins that are shell scripts, to run as separate processes.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";

/** A directory of CNI_PATH, removed in the end. */
export class PluginDirectory implements Disposable {
  /** Where it is. */
  readonly path: string = Deno.makeTempDirSync({ prefix: "cni-test-" });

  /**
   * Adds a plugin.
   *
   * @param script The script for `sh`
   * @returns The executable's path
   */
  add(type: string, script: string): string {
    return this.addFile(type, `#!/bin/sh\n${script}\n`);
  }

  /**
   * Adds a file.
   *
   * @returns Its path
   */
  addFile(name: string, content: string, mode = 0o755): string {
    const path = `${this.path}/${name}`;
    Deno.writeTextFileSync(path, content, { mode });
    return path;
  }

  /** Reads a file that a plugin writes; empty if it is not there. */
  read(name: string): string {
    return ifPossible(() => Deno.readTextFileSync(`${this.path}/${name}`)) ??
      "";
  }

  /** Adds this very executable under a plugin's name. */
  addOwnExecutable(type: string): void {
    Deno.symlinkSync("/proc/self/exe", `${this.path}/${type}`);
  }

  /** Removes the directory with its content. */
  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}
