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

/** Runs a program, under one of its names. */
type Program = (name: string, renamedStdin?: StdinReader) => Promise<unknown>;

/** Reads stdin, if the process has another name. */
type StdinReader = () => Uint8Array;

/** What the executable does under a name, besides running a plugin. */
interface Role {
  /** Instead of a plugin of the registry; importing a module runs it. */
  readonly program?: Program;
  /** Runs if there are arguments. Runtimes pass none. */
  readonly commands?: () => Promise<unknown>;
  /** Asks a third-party daemon if there is no node daemon. */
  readonly askThirdParty?: AskThirdParty;
}

/** Each other name is a plugin of the registry, and nothing else. */
const roles: Readonly<
  & Record<ProgramName, Role & { readonly program: Program }>
  & Record<string, Role>
> = {
  "cni": { program: runTool },
  "cnitool": { program: runTool },
  "dhcp": { commands: () => import("./ipam/dhcp/command.ts") },
  "multus": {
    commands: () => import("./cli/multus/commands.ts"),
    askThirdParty: askThick,
  },
  "multus-shim": {
    program: runShim,
    commands: () => import("./cli/multus/commands.ts"),
  },
  "noop": { program: () => import("./plugins/noop/main.ts") },
};

/** Commands of the tool that run until a signal ends them. */
const SERVICES = ["daemon"];

/** Runs a command of the tool. */
async function runTool(name: string): Promise<void> {
  const [subcommand = ""] = Deno.args;
  if (!SERVICES.includes(subcommand) && isSpanned()) {
    await startSpans(`${name} ${subcommand}`.trimEnd());
  }
  await import("./cli/main.ts");
}

/** Has the daemon run a call of multus; runs it here if it can be done without. */
async function runShim(
  _name: string,
  renamedStdin?: StdinReader,
): Promise<void> {
  const stdin = renamedStdin ?? readOnce();
  const handed = await askDaemon(SHIM, stdin, { renamedStdin });
  if (handed !== undefined) printAndExit(handed);
  const { shim } = await import("./plugins/multus/thick/shim.ts");
  const answer = await shim({ env: readEnvironment(), stdin });
  if (answer !== undefined) printAndExit(answer);
  const plugin = findPlugin("multus");
  const { runMain } = await import("./cni/skel.ts");
  if (plugin !== undefined) await runMain(await plugin, findPlugin, stdin);
}

type AskThirdParty = NonNullable<CallOptions["askThirdParty"]>;

/** Has thick multus' daemon of the Go version run a call of multus. */
async function askThick(
  ...call: Parameters<AskThirdParty>
): ReturnType<AskThirdParty> {
  const client = await import("./plugins/multus/thick/client.ts");
  return await client.askThick(...call);
}

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

/** Runs a plugin, here or in a daemon. */
async function runPlugin(
  name: string,
  { askThirdParty }: Role,
  renamedStdin?: StdinReader,
): Promise<void> {
  if (Deno.args[0] === "--help") {
    const { printHelp } = await import("./cli/plugins/plugin_help.ts");
    await printHelp(name);
  }
  const load = (): Promise<Plugin | undefined> => loadPlugin(name);
  const options = { lookup: findPlugin, renamedStdin, askThirdParty };
  await runAsPlugin(name, load, options);
}

/** Answers VERSION of a plugin, without loading it. */
async function printVersions(versions: readonly string[]): Promise<never> {
  const stdout = formatVersions(
    versions,
    await readStdinSoon(),
    readVariable(QUESTION_VARIABLE),
  );
  printAndExit({ stdout, exitCode: 0 });
}

/** Runs the plugin, the tool or the program of a name. */
async function run(name: string, renamedStdin?: StdinReader): Promise<void> {
  const trace = readVariable(TRACE);
  if (trace) await startTrace(trace, name);
  const role = roles[name] ?? {};
  if (role.commands !== undefined && Deno.args.length > 0) {
    return void await role.commands();
  }
  const isVersion = readVariable(COMMAND) === "VERSION";
  const versions = isVersion ? findVersions(name) : undefined;
  if (versions !== undefined) return await printVersions(versions);
  if (role.program !== undefined) {
    return void await role.program(name, renamedStdin);
  }
  await runPlugin(name, role, renamedStdin);
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
