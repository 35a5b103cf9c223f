/**
 * Tests as tables: a step for each row.
 *
 * ```ts ignore
 * testRows<[text: string, number]>("parse() reads numbers", [
 *   ["1", 1],
 *   ["0x10", 16],
 * ], ([text, expected]) => assertEquals(parse(text), expected));
 * ```
 *
 * @module
 */

/** Checks a row; throws if it fails. */
type Check<R> = (row: R) => void | Promise<void>;

/** Names a row. */
type NameOf<R> = (row: R) => string;

/** Runs a step for each row, named by the row or the first of its values. */
export async function eachRow<const R>(
  t: Deno.TestContext,
  rows: Iterable<R>,
  check: Check<R>,
  nameOf: NameOf<R> = firstOf,
): Promise<void> {
  for (const row of rows) await t.step(nameOf(row), () => check(row));
}

/** Registers a test with a step for each row, as {@linkcode eachRow} runs them. */
export function testRows<const R>(
  name: string,
  rows: Iterable<R>,
  check: Check<R>,
  nameOf?: NameOf<R>,
): void {
  Deno.test(name, (t) => eachRow(t, rows, check, nameOf));
}

function firstOf(row: unknown): string {
  return String(Array.isArray(row) ? row[0] : row);
}
