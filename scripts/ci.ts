/**
 * Runs the whole gate, the same here and in CI: what `deno task ok` does.
 *
 * It is `deno task test` and, beside the tests, format, lint, import cycles,
 * docs, and a part of the tests in another kernel. Everything runs, even after
 * something has failed.
 *
 * @module
 */

import { answerHelp } from "./help.ts";
import { runScope } from "./test.ts";
import { parseOptions } from "./test/options.ts";

const HELP = `Run the whole gate: format, lint, types, docs and tests.

Usage: deno task ok

It takes about 10 minutes on two cores, and needs root for most tests.`;

if (import.meta.main) {
  answerHelp(HELP);
  await runScope("whole", parseOptions([]));
}
