/**
 * Entry of the multi-call executable: which plugin or other program it is
 * follows from the name under which it was called.
 *
 * @module
 */

import { formatVersions, printAndExit } from "../cni/answer.ts";
import { calledAs } from "../cni/called_as.ts";
import { formatFailure } from "../cni/error.ts";
import { CURRENT_VERSION } from "../cni/version.ts";
import {
  findPlugin,
  findVersions,
  type ProgramName,
  programNames,
  unknownName,
} from "./registry.ts";

/** What is no plugin of the registry but a whole program, which runs when it is loaded. */
const programs: Readonly<Record<ProgramName, () => Promise<unknown>>> = {
  "noop": () => import("./noop/main.ts"),
  "cni": () => import("../cli/main.ts"),
  "cnitool": () => import("../cli/main.ts"),
};

/** What plugins do that are called with arguments, as no runtime calls them. */
const commands: Readonly<Record<string, () => Promise<unknown>>> = {
  "multus": () => import("../node/multus/command.ts"),
};

/** Runs the plugin or program; says which ones there are if the name is none of theirs. */
async function main(): Promise<void> {
  const name = calledAs();
  const command = Deno.args.length > 0 ? commands[name] : undefined;
  if (command !== undefined) return void await command();
  const asked = Deno.env.get("CNI_COMMAND") === "VERSION";
  const versions = asked ? findVersions(name) : undefined;
  if (versions !== undefined) {
    printAndExit({ stdout: formatVersions(versions), exitCode: 0 });
  }
  const plugin = findPlugin(name);
  if (plugin !== undefined) {
    const { runMain } = await import("../cni/skel.ts");
    await runMain(await plugin, findPlugin);
  }
  const program = programNames.find((known) => known === name);
  if (program !== undefined) return void await programs[program]();
  printAndExit(formatFailure(unknownName(name), CURRENT_VERSION));
}

main();
