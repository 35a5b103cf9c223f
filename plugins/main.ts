/**
 * Entry point of the multi-call executable: the name under which it was called
 * selects the plugin or other program.
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

/** Programs that are not plugins of the registry; importing one runs it. */
const programs: Readonly<Record<ProgramName, () => Promise<unknown>>> = {
  "noop": () => import("./noop/main.ts"),
  "cni": () => import("../cli/main.ts"),
  "cnitool": () => import("../cli/main.ts"),
};

/**
 * Commands of plugins, which run if there are arguments. Runtimes pass none.
 */
const commands: Readonly<Record<string, () => Promise<unknown>>> = {
  "multus": () => import("../node/multus/command.ts"),
};

/** Runs the plugin or program; lists the known names if the name is unknown. */
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
