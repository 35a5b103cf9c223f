/**
 * Prints the help of the plugin that this process was called as. Importing this
 * file does so and exits.
 *
 * @module
 */

import { printAndExit } from "../cni/call/answer.ts";
import { calledAs } from "../cni/process/stdio.ts";
import { COMMANDS } from "../cni/call/args.ts";
import { chooseStyle } from "./program/style.ts";
import { explain } from "./schema/explain.ts";
import { makeSchemas } from "./schema/make.ts";
import { findKey } from "./schema/schemas.ts";

/** Prints what the plugin is, its keys and an example. */
async function main(): Promise<void> {
  const key = findKey(await makeSchemas(), calledAs());
  const text = typeof key === "string"
    ? key
    : `${explain(key, chooseStyle(false))}\n\n` +
      "Runtimes set CNI_COMMAND to " + COMMANDS.join(", ") +
      " or VERSION, and pass the configuration on stdin.";
  printAndExit({ stdout: `${text}\n`, exitCode: 0 });
}

main();
