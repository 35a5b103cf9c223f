/**
 * Every parser of bytes or text from outside returns a value or throws an error
 * that its documentation names, whatever it reads. `deno task fuzz` runs more
 * inputs.
 *
 * @module
 */

import { fuzz, listParsers } from "./fuzz/parsers/run.ts";

const RUNS = 2_000;

/** Another one each day, and the same one all day. */
const SEED = Math.floor(Date.now() / 86_400_000);

Deno.test(`parsers survive ${RUNS} inputs each, from seed ${SEED}`, async (t) => {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  try {
    for (const parser of listParsers(directory)) {
      await t.step(parser.name, () => fuzz(parser, { runs: RUNS, seed: SEED }));
    }
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
