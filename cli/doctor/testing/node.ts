/**
 * A node for checks of `cni doctor` that need no kernel.
 *
 * @module
 */

import { NodeReader } from "../../node/node_reader.ts";
import type { Directories } from "../../node/network.ts";

/** Creates a node that has only these directories. */
export function createNode(directories: Partial<Directories>): NodeReader {
  return new NodeReader({
    directories: {
      pluginDirs: [],
      confDir: "/nonexistent",
      cacheDir: "/nonexistent",
      ...directories,
    },
    env: {},
    signal: new AbortController().signal,
    daemonSocket: "/nonexistent/daemon.sock",
  });
}

/** A directory with one configuration. */
export class ConfDirectory implements Disposable {
  readonly path: string = Deno.makeTempDirSync({ prefix: "cni-test-" });
  /** Path of the configuration. */
  readonly file: string = `${this.path}/10-pods.conflist`;

  /** Writes the configuration. */
  write(text: string): void {
    Deno.writeTextFileSync(this.file, text);
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}
