/**
 * Tests as tables: a step for each row.
 *
 * @module
 */

/** Runs a step for each row, named by the row or the first of its values. */
export async function eachRow<const R>(
  t: Deno.TestContext,
  rows: Iterable<R>,
  check: (row: R) => void | Promise<void>,
  nameOf: (row: R) => string = (row) =>
    String(Array.isArray(row) ? row[0] : row),
): Promise<void> {
  for (const row of rows) await t.step(nameOf(row), () => check(row));
}

/** Registers a test with a step for each row. */
export function testRows<const R>(
  name: string,
  rows: Iterable<R>,
  check: (row: R) => void | Promise<void>,
  nameOf?: (row: R) => string,
): void {
  Deno.test(name, (t) => eachRow(t, rows, check, nameOf));
}
