/**
 * Collects everything that CHECK finds in one error.
 *
 * @module
 */

import { CniError, toCniError } from "../../base/error.ts";
import type { MaybePromise } from "../../base/waiting.ts";

/** Starts each further difference in an error's details. */
const ALSO = "also: ";

/** Appends further differences to an error's details, one per line. */
export function formatDetails(others: readonly string[]): string {
  return others.map((other) => ALSO + other).join("\n");
}

/** Lists the differences in an error. Any other error counts as one difference. */
export function listDifferences(error: unknown): string[] {
  const { message, details } = toCniError(error);
  const lines = details === "" ? [] : details.split("\n");
  const own = lines.filter((line) => !line.startsWith(ALSO));
  const others = lines.filter((line) => line.startsWith(ALSO))
    .map((line) => line.slice(ALSO.length));
  return [[message, ...own].join("; "), ...others];
}

/**
 * Collects differences from the state that ADD left. The error's message is the
 * first difference; its details are the others, one per line.
 *
 * ```ts ignore
 * const differences = new Differences();
 * await differences.collect(() => call.ipam.check());
 * await differences.collect(() => checkAddresses(sandbox, link, addresses));
 * differences.throwAny();
 * ```
 */
export class Differences {
  readonly #failures: unknown[] = [];

  /**
   * Runs a check and collects its error.
   *
   * @returns What the check returns; undefined if it threw
   */
  async collect<T>(check: () => MaybePromise<T>): Promise<T | undefined> {
    try {
      return await check();
    } catch (error) {
      this.#failures.push(error);
      return undefined;
    }
  }

  /**
   * Throws the collected differences, if any.
   *
   * @throws The error itself if only one check failed
   * @throws {CniError} With the code of the first difference, if several failed
   */
  throwAny(): void {
    const [first, ...others] = this.#failures;
    if (first === undefined) return;
    if (others.length === 0) throw first;
    const { code, message, details } = toCniError(first);
    const more = formatDetails(others.flatMap(listDifferences));
    throw new CniError(code, message, {
      details: details === "" ? more : `${details}\n${more}`,
    });
  }
}
