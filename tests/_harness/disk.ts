/**
 * Disks that are full or read-only.
 *
 * @module
 */

import { assert } from "@std/assert";

/**
 * A file system in memory, mounted in a mount namespace of its own and reached
 * through the process that lives there. It is gone with that process.
 */
export class Disk implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  /** The file system's root, as seen from here. */
  readonly dataDir: string;

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
    this.dataDir = `/proc/${child.pid}/root/mnt`;
  }

  /**
   * Mounts a file system.
   *
   * @param size What it holds, as `16k`; a multiple of pages
   * @param prepare Shell commands, run in the file system's root
   */
  static async mount(size: string, prepare: string): Promise<Disk> {
    const script = `mount -t tmpfs -o size=${size} tmpfs /mnt && cd /mnt && ` +
      `${prepare} && echo ready && read _`;
    const child = new Deno.Command("unshare", {
      args: ["--mount", "sh", "-c", script],
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const disk = new Disk(child);
    const { done } = await child.stdout.getReader().read();
    assert(!done, "the file system was not mounted");
    return disk;
  }

  /** Returns the command line that runs a program where /mnt is the file system. */
  enter(program: readonly string[]): string[] {
    const target = `--target=${this.#child.pid}`;
    return ["nsenter", target, "--mount", "--root", "--wd", "--", ...program];
  }

  /** Stops the process, and with it the file system. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child.stdin.close();
    await this.#child.status;
  }
}
