/**
 * Every parser of bytes or text from outside returns a value or throws an error
 * that its documentation names, whatever it reads. `CNI_FUZZ_COUNT` and
 * `CNI_FUZZ_SEED` choose more inputs, and others.
 *
 * An input that fails is made as small as possible and shown with its seed. Add it
 * to `tests/fuzz/parsers/corpus.json`, which is run first.
 *
 * @module
 */

import { firstSeed, howManyInputs } from "./_harness/repetition.ts";
import { fuzz, listParsers } from "./fuzz/parsers/run.ts";

const RUNS = howManyInputs(2_000);

/** Another one each day, and the same one all day. */
const SEED = firstSeed(Math.floor(Date.now() / 86_400_000));

const directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
globalThis.addEventListener(
  "unload",
  () => Deno.removeSync(directory, { recursive: true }),
);

for (const parser of listParsers(directory)) {
  const name = `parsers survive ${RUNS} inputs, from seed ${SEED}`;
  Deno.test(
    `${name}: ${parser.name}`,
    () => fuzz(parser, { runs: RUNS, seed: SEED }),
  );
}
