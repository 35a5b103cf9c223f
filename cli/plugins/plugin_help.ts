/**
 * The help of a plugin.
 *
 * @module
 */

import { printAndExit } from "../../cni/call/answer.ts";
import { COMMANDS } from "../../cni/call/args.ts";
import { chooseStyle } from "../../base/command_line/style.ts";
import { explainKey } from "../explain/explain.ts";
import { makeSchemas } from "../explain/make.ts";
import { findKey } from "../explain/schemas.ts";

/** Prints what a plugin is, its keys and an example, and exits. */
export async function printHelp(name: string): Promise<never> {
  const key = findKey(await makeSchemas(), name);
  const text = typeof key === "string"
    ? key
    : `${explainKey(key, chooseStyle(false))}\n\n` +
      "Runtimes set CNI_COMMAND to " + COMMANDS.join(", ") +
      " or VERSION, and pass the configuration on stdin.";
  printAndExit({ stdout: `${text}\n`, exitCode: 0 });
}
