/**
 * The behaviours that other programs count on, one test for each: the rows of
 * the conformance lists. `deno task test` counts them by their names.
 *
 * @module
 */

import type { Needs } from "../../testing/capabilities.ts";

/** What a row does; it throws if the behaviour is another one. */
export type Row = (t: Deno.TestContext) => void | Promise<void>;

/**
 * Registers a test for each row, named `conformance AREA: ROW`.
 *
 * @param area What the rows are about, such as `skel` or `host-local`
 * @param rows By name, the behaviour in a few words
 * @param needs What `ignoreUnless` returned, for rows that cannot run everywhere
 */
export function conformance(
  area: string,
  rows: Readonly<Record<string, Row>>,
  { ignore, suffix }: Needs = { ignore: false, suffix: "" },
): void {
  for (const [row, fn] of Object.entries(rows)) {
    Deno.test({ name: `conformance ${area}: ${row}${suffix}`, ignore, fn });
  }
}
