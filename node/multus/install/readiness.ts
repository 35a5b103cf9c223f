/**
 * The file by which the master network says that it is ready.
 *
 * @module
 */

import { ifPossible } from "../../../cni/io_failure.ts";
import type { Log } from "../../../cni/log.ts";
import { NotYetError } from "./not_yet_error.ts";
import { type ConfigurationOptions, HOST_ROOT } from "./options.ts";

/** Asks for that file until it is there, or long enough. */
export class Readiness {
  readonly #path: string;
  readonly #endMs: number;
  readonly #timeoutMs: number;
  readonly #log: Log;
  #isOver: boolean;

  /** The time runs from now on. */
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
   * Returns if there is nothing to wait for any more. Once it has returned it
   * always does: a file that vanishes later is for multus to notice, which
   * looks for it before each pod.
   *
   * @throws {NotYetError} If the file is not there
   */
  require(): void {
    if (this.#isOver) return;
    // A container may see it where the node has it, or below the node's root.
    // A path that cannot be looked at is one that is not there.
    const isThere = [this.#path, HOST_ROOT + this.#path]
      .some((path) => ifPossible(() => Deno.statSync(path)) !== undefined);
    if (!isThere && performance.now() < this.#endMs) {
      throw new NotYetError(
        `Cannot make a configuration: "${this.#path}" is not there yet`,
      );
    }
    this.#isOver = true;
    if (isThere || this.#timeoutMs === 0) return;
    this.#log.warn("went on without the readiness indicator file", {
      path: this.#path,
      waitedMs: this.#timeoutMs,
    });
  }
}
