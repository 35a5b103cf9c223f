/**
 * Makes standalone executables of the plugins: `deno task compile`.
 *
 *     deno task compile [--target TARGET] [--out DIRECTORY] [--no-STEP]...
 *                       [--plugin MODULE [--name NAME]]
 *
 * By default there is one executable, `cni`, which acts as the plugin by whose
 * name it is called, and a symbolic link to it for each plugin: on disk and in
 * the page cache they are one file. `cp -a`, `cp -r`, `rsync -a`, `tar` and
 * COPY in a Dockerfile keep the links; `scp -r` and `cp -L` make a whole file of
 * each. noop, a plugin for tests, is not among them. `--plugin` makes one of somebody else's
 * plugin, which need not be in the project (docs/write-a-plugin.md).
 *
 * `deno compile` makes the executables. What the build does besides, so that they
 * start faster, are steps that can be left out (`compile/steps.ts`). Executables for
 * this machine are started before and after these steps; the build fails if they
 * do different things.
 *
 * Files appear complete, under their final name, by rename(2): a plugin that is
 * running keeps the old file. The same sources give the same bytes. A bill of
 * materials is written beside the project's executable.
 *
 * @module
 */

import { describeError } from "../base/error.ts";
import { parseCommandLine } from "./compile/command_line.ts";
import { writeSbom } from "./compile/sbom.ts";
import { compile, type Executable } from "./compile/executables.ts";
import { LINK, STEPS } from "./compile/steps.ts";
import { answerHelp } from "./command_line.ts";

export { compile } from "./compile/executables.ts";
export { ensureCompiled } from "./compile/up_to_date.ts";

async function main(): Promise<void> {
  const options = parseCommandLine(Deno.args);
  const made = await compile(options);
  if (made.note !== undefined) console.error(made.note);
  console.log(describe(made));
  // Only its author knows what is in another program.
  if (options.program === undefined) console.log(await writeSbom(made));
}

function describe({ path, size, bundleSize }: Executable): string {
  const mebibytes = `${(size / 2 ** 20).toFixed(1)} MiB`;
  return `${path}: ${mebibytes}, ${
    (bundleSize / 2 ** 10).toFixed(1)
  } KiB of it ours`;
}

const HELP = `Make standalone executables of the plugins in dist/bin.

Usage: deno task compile [--target TARGET] [--out DIRECTORY] [--no-STEP]...
                         [--plugin MODULE [--name NAME]]

  --target TARGET    x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu
  --out DIRECTORY    where to put them (default dist/bin)
  --plugin MODULE    compile a plugin of your own
  --name NAME        its name (default the module's, or the directory's of main.ts)

Steps that can be left out; an executable without one

${
  [LINK, ...STEPS].map(({ name, without }) =>
    `  --no-${name}`.padEnd(21) + without
  ).join("\n")
}`;

if (import.meta.main) {
  answerHelp(HELP);
  try {
    await main();
  } catch (error) {
    console.error(describeError(error));
    Deno.exit(1);
  }
}
