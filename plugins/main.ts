/**
 * Entry point of the multi-call executable: the name under which it was called
 * selects the plugin or other program.
 *
 * @module
 */

import { formatVersions, printAndExit } from "../cni/answer.ts";
import { formatFailure } from "../cni/error.ts";
import { calledAs, readStdin, writeStderr } from "../cni/stdio.ts";
import { CURRENT_VERSION } from "../cni/version.ts";
import {
  findPlugin,
  findVersions,
  pluginNames,
  type ProgramName,
  programNames,
  registry,
  unknownName,
} from "./registry.ts";

/** Programs that are not plugins of the registry; importing one runs it. */
const programs: Readonly<Record<ProgramName, () => Promise<unknown>>> = {
  "noop": () => import("./noop/main.ts"),
  "cni": () => import("../cli/main.ts"),
  "cnitool": () => import("../cli/main.ts"),
  "multus-shim": runShim,
};

/**
 * Commands of plugins, which run if there are arguments. Runtimes pass none.
 */
const commands: Readonly<Record<string, () => Promise<unknown>>> = {
  "dhcp": () => import("../node/dhcp/command.ts"),
  "multus": () => import("../node/multus/command.ts"),
  "multus-shim": () => import("../node/multus/command.ts"),
};

/**
 * What each command needs in the environment. A call without it fails before it
 * reads stdin.
 */
const needed: Readonly<Record<string, readonly string[]>> = {
  "ADD": ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
  "CHECK": ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
  "DEL": ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"],
  "GC": ["CNI_PATH"],
  "STATUS": ["CNI_PATH"],
};

/** Asks a daemon even if the configuration names none. */
const SHIM = "multus-shim";

/** Has a node daemon run a call, if one is to be asked. */
async function askDaemon(
  name: string,
  stdin: () => Uint8Array,
): Promise<Parameters<typeof printAndExit>[0] | undefined> {
  const config = findDaemonConfig(name, stdin);
  if (config === undefined) return undefined;
  const { handOver } = await import("./hand_over.ts");
  return await handOver({ name, env: Deno.env.toObject(), stdin: config });
}

/**
 * Reads a configuration that may name a node daemon.
 *
 * @returns Undefined if no daemon is to be asked
 */
function findDaemonConfig(
  name: string,
  stdin: () => Uint8Array,
): Uint8Array | undefined {
  if (Deno.args.length > 0 || Deno.env.get("CNI_NO_DAEMON") === "1") return;
  const variables = needed[Deno.env.get("CNI_COMMAND") ?? ""];
  if (!variables?.every((variable) => Deno.env.get(variable))) return;
  try {
    const bytes = stdin();
    const text = new TextDecoder().decode(bytes);
    return name === SHIM || /"daemonSocket/i.test(text) ? bytes : undefined;
  } catch {
    return undefined; // the call reports it
  }
}

/**
 * Returns a function that reads stdin, all of it, at its first call. If that
 * fails, so do the others: the rest of a stream is no configuration.
 */
function readOnce(): () => Uint8Array {
  let bytes: Uint8Array | undefined;
  let failure: unknown;
  return () => {
    if (failure !== undefined) throw failure;
    try {
      return bytes ??= readStdin();
    } catch (error) {
      failure = error;
      throw error;
    }
  };
}

/** Has the daemon run a call of multus; runs it here if it can be done without. */
async function runShim(): Promise<void> {
  const stdin = readOnce();
  const handed = await askDaemon(SHIM, stdin);
  if (handed !== undefined) printAndExit(handed);
  const { shim } = await import("./thick/shim.ts");
  const answer = await shim({ env: Deno.env.toObject(), stdin });
  if (answer !== undefined) printAndExit(answer);
  const plugin = findPlugin("multus");
  const { runMain } = await import("../cni/skel.ts");
  if (plugin !== undefined) await runMain(await plugin, findPlugin, stdin);
}

/** Appends what this process does to a file. A trace that cannot be written must not stop it. */
async function startTrace(path: string, name: string): Promise<void> {
  const { startTracing } = await import("../tracing/start.ts");
  const command = Deno.env.get("CNI_COMMAND") ?? Deno.args[0] ?? "";
  try {
    startTracing(path, registry, `${name} ${command}`.trimEnd());
  } catch (error) {
    writeStderr(`Cannot trace: ${error}\n`);
  }
}

/** Runs the plugin or program; lists the known names if the name is unknown. */
async function main(): Promise<void> {
  const name = calledAs();
  const trace = Deno.env.get("CNI_TRACE");
  if (trace) await startTrace(trace, name);
  const command = Deno.args.length > 0 ? commands[name] : undefined;
  if (command !== undefined) return void await command();
  const asked = Deno.env.get("CNI_COMMAND") === "VERSION";
  const versions = asked ? findVersions(name) : undefined;
  if (versions !== undefined) {
    printAndExit({ stdout: formatVersions(versions), exitCode: 0 });
  }
  if (pluginNames.includes(name)) {
    if (Deno.args[0] === "--help") {
      return void await import("../cli/plugin_help.ts");
    }
    const stdin = readOnce();
    const answer = await askDaemon(name, stdin);
    if (answer !== undefined) printAndExit(answer);
    const plugin = findPlugin(name);
    const { runMain } = await import("../cni/skel.ts");
    if (plugin !== undefined) await runMain(await plugin, findPlugin, stdin);
  }
  const program = programNames.find((known) => known === name);
  if (program !== undefined) return void await programs[program]();
  printAndExit(formatFailure(unknownName(name), CURRENT_VERSION));
}

main();
