/**
 * Entry of the multi-call executable: which plugin it is follows from the name
 * under which it was called.
 *
 * @module
 */

import { basename } from "@std/path/posix";
import { CniError, ErrorCode, formatFailure } from "../cni/error.ts";
import { printAndExit, runMain } from "../cni/skel.ts";
import { CURRENT_VERSION } from "../cni/version.ts";
import { findPlugin, pluginNames } from "./registry.ts";

/** Runs the plugin; says which ones there are if the name is none of theirs. */
async function main(): Promise<void> {
  const name = basename(calledAs());
  const plugin = findPlugin(name);
  if (plugin !== undefined) await runMain(await plugin, findPlugin);
  const error = new CniError(
    ErrorCode.InvalidEnvironment,
    `no plugin is named "${name}"`,
    { details: `call this executable as one of: ${pluginNames.join(", ")}` },
  );
  printAndExit(formatFailure(error, CURRENT_VERSION));
}

/** argv[0]; Deno.execPath() would follow links. */
function calledAs(): string {
  const [argv0 = ""] = Deno.readTextFileSync("/proc/self/cmdline").split("\0");
  return argv0;
}

main();
