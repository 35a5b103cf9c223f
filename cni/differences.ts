/**
 * Everything that CHECK finds, in one error.
 *
 * @module
 */

import { CniError, toCniError } from "./error.ts";
import type { MaybePromise } from "./plugin.ts";

/** Begins the lines of an error's details that are further differences. */
const ALSO = "also: ";

/** Joins further differences to the details of an error, one a line. */
export function formatDetails(others: readonly string[]): string {
  return others.map((other) => ALSO + other).join("\n");
}

/** Lists the differences in an error; one that has no others is one difference. */
export function listDifferences(error: unknown): string[] {
  const { message, details } = toCniError(error);
  const lines = details === "" ? [] : details.split("\n");
  const own = lines.filter((line) => !line.startsWith(ALSO));
  const others = lines.filter((line) => line.startsWith(ALSO))
    .map((line) => line.slice(ALSO.length));
  return [[message, ...own].join("; "), ...others];
}

/**
 * Collects what is not as ADD left it. The error's message is the first
 * difference; its details are the others, one a line.
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
   * Runs a check, and keeps what it throws.
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
   * Ends the collection.
   *
   * @throws What the only check threw that failed
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
