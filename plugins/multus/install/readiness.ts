/**
 * The file that signals that the master network is ready.
 *
 * @module
 */

import { ifPossible } from "../../../base/files/io.ts";
import type { Log } from "../../../base/log/log.ts";
import { NotYetError } from "./steps.ts";
import { type ConfigurationOptions, HOST_ROOT } from "./options.ts";

/** Requires that file until it exists, or until a timeout. */
export class Readiness {
  readonly #path: string;
  readonly #endMs: number;
  readonly #timeoutMs: number;
  readonly #log: Log;
  #isOver: boolean;

  /** Starts the timeout. */
  constructor(
    { readinessFile, readinessTimeoutMs }: Pick<
      ConfigurationOptions,
      "readinessFile" | "readinessTimeoutMs"
    >,
    log: Log,
  ) {
    this.#path = readinessFile;
    this.#timeoutMs = readinessTimeoutMs;
    this.#endMs = performance.now() + readinessTimeoutMs;
    this.#log = log;
    this.#isOver = readinessFile === "";
  }

  /**
   * Returns if there is nothing left to wait for. After the first success it
   * always returns: multus itself checks before each pod whether the file still
   * exists.
   *
   * @throws {NotYetError} If the file does not exist
   */
  require(): void {
    if (this.#isOver) return;
    // A container may have it at the node's path, or below the mounted node's
    // root. An inaccessible path counts as missing.
    const isThere = [this.#path, HOST_ROOT + this.#path]
      .some((path) => ifPossible(() => Deno.statSync(path)) !== undefined);
    if (!isThere && performance.now() < this.#endMs) {
      throw new NotYetError(
        `Cannot write a configuration: "${this.#path}" does not exist yet`,
      );
    }
    this.#isOver = true;
    if (isThere || this.#timeoutMs === 0) return;
    this.#log.warn("continued without the readiness indicator file", {
      path: this.#path,
      waitedMs: this.#timeoutMs,
    });
  }
}
