/**
 * Runs lint rules on sample sources, for their tests.
 *
 * @module
 */

import { assertEquals } from "@std/assert";

/** The path from the project's root, the text, and the expected messages. */
export type Row = readonly [path: string, source: string, message?: string];

/** Returns what a rule says of a source, one message per report. */
export function diagnose(
  rule: Deno.lint.Rule,
  path: string,
  source: string,
): string[] {
  const filename = decodeURIComponent(
    new URL(`../../${path}`, import.meta.url).pathname,
  );
  const plugin = { name: "cni", rules: { rule } };
  return Deno.lint.runPlugin(plugin, filename, source)
    .map(({ message }) => message);
}

/**
 * Tests a rule on one source per step; a row without a message is in order.
 * The start of a message is enough.
 */
export async function testRows(
  t: Deno.TestContext,
  rule: Deno.lint.Rule,
  rows: readonly Row[],
): Promise<void> {
  for (const [path, source, message] of rows) {
    await t.step(`${path}: ${source}`, () => {
      const found = diagnose(rule, path, source)
        .map((text) => text.slice(0, message?.length));
      assertEquals(found, message === undefined ? [] : [message]);
    });
  }
}
