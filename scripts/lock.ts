// deno-lint-ignore-file no-console -- its output is what it is for

/**
 * Writes deno.lock with the packages of jsr.io: `deno task lock`. Imports nothing
 * that needs them.
 *
 *     deno task lock [--check]
 *
 * @module
 */

import { answerHelp } from "./help.ts";
import { isOffline } from "./net.ts";

const ROOT = new URL("../", import.meta.url);
const LOCK = new URL("deno.lock", ROOT);

const HELP =
  `Write deno.lock: versions and digests of all packages that are imported.

Usage: deno task lock [--check]

  --check  change nothing; fail if deno.lock is not complete

It needs jsr.io and the npm registry.`;

/** Resolves all imports of the project, and writes what is found to a lock file. */
async function resolve(lock: string): Promise<void> {
  const { success } = await new Deno.Command(Deno.execPath(), {
    args: ["check", `--lock=${lock}`, "--frozen=false", "."],
    cwd: ROOT,
    stdin: "null",
  }).output();
  if (success) return;
  throw new Error("Cannot resolve the imports: deno check fails");
}

/** Returns the exit code. */
async function main(isCheck: boolean): Promise<number> {
  if (await isOffline()) {
    console.error("Cannot write deno.lock: jsr.io is out of reach");
    return 1;
  }
  const before = await Deno.readTextFile(LOCK);
  const copy = await Deno.makeTempFile({ suffix: ".lock" });
  try {
    await Deno.writeTextFile(copy, before);
    await resolve(copy);
    const after = await Deno.readTextFile(copy);
    if (after === before) return 0;
    if (!isCheck) {
      await Deno.writeTextFile(LOCK, after);
      return 0;
    }
    console.error(
      "deno.lock is not complete: run deno task lock, and commit it",
    );
    return 1;
  } finally {
    await Deno.remove(copy);
  }
}

if (import.meta.main) {
  answerHelp(HELP);
  Deno.exitCode = await main(Deno.args.includes("--check"));
}
