/**
 * The directories in which the node daemon searches by itself. Its environment often
 * does not name the runtime's plugin directory, but the runtime's calls do.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { isSameFile, OWN_EXECUTABLE } from "../../base/files/same_file.ts";
import type { Environment } from "../../base/process/environment.ts";
import { splitPath } from "../../cni/invoke/find.ts";
import type { EndedCall } from "../../daemon/server/call.ts";
import { defaultDirectories, type Directories } from "../node/network.ts";

/** How many values of CNI_PATH are kept: those of the last calls. */
const MOST_PATHS = 16;

/** The directories, including the plugin directories of the last calls. */
export class DaemonDirectories implements Directories {
  readonly confDir: string;
  readonly cacheDir: string;
  /** CNI_PATH of the environment; none if it is not set. */
  readonly #own: readonly string[];
  /** Searched last. */
  readonly #usual: readonly string[];
  /** CNI_PATH of calls; the last call's is at the end. */
  readonly #ofCalls = new Set<string>();

  /**
   * @param env The daemon's environment
   * @param executable Path of the daemon's executable. Its directory is searched unless
   *   a different file is there, as on the host for a daemon in a container
   */
  constructor(env: Environment, executable: string = Deno.execPath()) {
    const { pluginDirs, confDir, cacheDir } = defaultDirectories(env);
    this.confDir = confDir;
    this.cacheDir = cacheDir;
    this.#own = splitPath(env["CNI_PATH"] ?? "");
    const isHere = isSameFile(executable, OWN_EXECUTABLE);
    this.#usual = [...isHere ? [dirname(executable)] : [], ...pluginDirs];
  }

  /** Notes the plugin directories of a call. */
  note({ call: { env }, code }: Pick<EndedCall, "call" | "code">): void {
    const path = env["CNI_PATH"] ?? "";
    if (code < 0 || path === "") return;
    this.#ofCalls.delete(path);
    this.#ofCalls.add(path);
    const [oldest = ""] = this.#ofCalls;
    if (this.#ofCalls.size > MOST_PATHS) this.#ofCalls.delete(oldest);
  }

  /**
   * The directories of the environment, then of calls, the last call's first, then of
   * the executable, and the default directory.
   */
  get pluginDirs(): string[] {
    const ofCalls = [...this.#ofCalls].reverse().flatMap(splitPath)
      .filter((directory) => directory.startsWith("/"));
    return [...new Set([...this.#own, ...ofCalls, ...this.#usual])];
  }
}
