/**
 * Entry point of the multi-call executable: the name under which it was called
 * selects the plugin or other program (`plugins/renamed.ts`: any other name).
 *
 * @module
 */

import { formatVersions, printAndExit } from "./cni/call/answer.ts";
import {
  COMMAND,
  mayHaveSpans,
  QUESTION_VARIABLE,
  TRACE,
} from "./cni/call/variables.ts";
import type { Plugin } from "./cni/plugin.ts";
import {
  calledAs,
  readEnvironment,
  readStdinSoon,
  readVariable,
  writeStderr,
} from "./base/process/stdio.ts";
import {
  askDaemon,
  type CallOptions,
  readOnce,
  runAsPlugin,
  SHIM,
} from "./daemon/caller/ask_daemon.ts";
import {
  findPlugin,
  findVersions,
  pluginNames,
  type ProgramName,
  programNames,
  registry,
} from "./plugins/registry.ts";

/** Programs that are not plugins of the registry; importing one runs it. */
const programs: Readonly<
  Record<ProgramName, (renamed?: () => Uint8Array) => Promise<unknown>>
> = {
  "noop": () => import("./plugins/noop/main.ts"),
  "cni": () => import("./cli/main.ts"),
  "cnitool": () => import("./cli/main.ts"),
  "multus-shim": runShim,
};

/**
 * Commands of plugins, which run if there are arguments. Runtimes pass none.
 */
const commands: Readonly<Record<string, () => Promise<unknown>>> = {
  "dhcp": () => import("./ipam/dhcp/command.ts"),
  "multus": () => import("./cli/multus/commands.ts"),
  "multus-shim": () => import("./cli/multus/commands.ts"),
};

/** Has the daemon run a call of multus; runs it here if it can be done without. */
async function runShim(renamed?: () => Uint8Array): Promise<void> {
  const stdin = renamed ?? readOnce();
  const handed = await askDaemon(SHIM, stdin, { renamed });
  if (handed !== undefined) printAndExit(handed);
  const { shim } = await import("./plugins/multus/thick/shim.ts");
  const answer = await shim({ env: readEnvironment(), stdin });
  if (answer !== undefined) printAndExit(answer);
  const plugin = findPlugin("multus");
  const { runMain } = await import("./cni/skel.ts");
  if (plugin !== undefined) await runMain(await plugin, findPlugin, stdin);
}

/** Has thick multus' daemon of the Go version run a call of multus. */
const askThick: CallOptions["askThirdParty"] = async (...asked) => {
  const client = await import("./plugins/multus/thick/client.ts");
  return await client.askThick(...asked);
};

/** Appends what this process does to a file. A trace that cannot be written must not stop it. */
async function startTrace(path: string, name: string): Promise<void> {
  const { startTracing } = await import("./cli/trace/start.ts");
  const command = readVariable(COMMAND) ?? Deno.args[0] ?? "";
  try {
    startTracing(path, registry, `${name} ${command}`.trimEnd());
  } catch (error) {
    writeStderr(`Cannot trace: ${error}\n`);
  }
}

/** Whether this process may make spans. A trace has more than these. */
function isSpanned(): boolean {
  return !readVariable(TRACE) && mayHaveSpans(readVariable);
}

/** Posts spans of what this process does, if the environment says where. */
async function startSpans(name: string): Promise<void> {
  const { startSpans } = await import("./cli/trace/start_spans.ts");
  await startSpans(name, readEnvironment(), registry);
}

/** Loads a plugin that no daemon runs. */
async function loadPlugin(name: string): Promise<Plugin | undefined> {
  if (isSpanned()) await startSpans(name);
  return await findPlugin(name);
}

/** Commands of the tool that run until they are told to end. */
const SERVICES = ["daemon"];

/**
 * Runs a plugin or program.
 *
 * @param renamed Reads stdin, if the process has another name
 */
async function run(name: string, renamed?: () => Uint8Array): Promise<void> {
  const trace = readVariable(TRACE);
  if (trace) await startTrace(trace, name);
  const command = Deno.args.length > 0 ? commands[name] : undefined;
  if (command !== undefined) return void await command();
  const asked = readVariable(COMMAND) === "VERSION";
  const versions = asked ? findVersions(name) : undefined;
  if (versions !== undefined) {
    const stdout = formatVersions(
      versions,
      await readStdinSoon(),
      readVariable(QUESTION_VARIABLE),
    );
    printAndExit({ stdout, exitCode: 0 });
  }
  if (pluginNames.includes(name)) {
    if (Deno.args[0] === "--help") {
      const { printHelp } = await import("./cli/plugins/plugin_help.ts");
      await printHelp(name);
    }
    await runAsPlugin(name, () => loadPlugin(name), {
      lookup: findPlugin,
      renamed,
      askThirdParty: name === "multus" ? askThick : undefined,
    });
  }
  const [subcommand = ""] = Deno.args;
  const isTool = ["cni", "cnitool"].includes(name);
  if (isTool && !SERVICES.includes(subcommand) && isSpanned()) {
    await startSpans([name, subcommand].join(" ").trimEnd());
  }
  const program = programNames.find((known) => known === name) ?? "cni";
  await programs[program](renamed);
}

/** Runs what the process's name says; looks for its plugin if that is another name. */
async function main(): Promise<void> {
  const name = calledAs();
  const isKnown = pluginNames.includes(name) ||
    programNames.some((known) => known === name);
  if (isKnown) return await run(name);
  const { runRenamed } = await import("./plugins/renamed.ts");
  const stdin = readOnce();
  await runRenamed({
    command: readVariable(COMMAND),
    stdin,
    run: (found) => run(found, stdin),
  });
}

main();
