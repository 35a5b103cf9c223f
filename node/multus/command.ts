/**
 * Runs the commands of `multus`, for its installation and operation. Runtimes
 * call it without arguments.
 *
 * Importing this module runs the command.
 *
 * @module
 */

import { describeError } from "../../cni/error.ts";
import { PLUGINS_VERSION } from "../../cni/skel.ts";
import { writeStderr, writeStdout } from "../../cni/stdio.ts";
import { pluginNames, programNames } from "../../plugins/registry.ts";
import { type Command, type CommandWorld, NAME } from "./command_row.ts";
import { refuse } from "./flags.ts";

/** The commands by name. */
const COMMANDS: Readonly<Record<string, Command>> = {
  "install": {
    summary: "puts the executable, credentials and configuration on a node",
    load: async () => (await import("./install/command.ts")).install,
  },
  "daemon": {
    summary: "keeps what plugins ask the API server for at hand",
    load: async () => (await import("./daemon/command.ts")).daemon,
  },
};

/** Signal numbers, for the exit codes that shells expect. */
const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;

/** Time that a command has to end after a signal, in ms. */
const GRACE_MS = 500;

async function main(): Promise<never> {
  // If the event loop runs empty during a wait, the process must not exit with
  // 0.
  Deno.exitCode = 1;
  const { signal, ended } = listenToSignals();
  try {
    Deno.exit(await Promise.race([run(Deno.args, signal), ended]));
  } catch (error) {
    writeStderr(`${describeError(error)}\n`);
    Deno.exit(1);
  }
}

async function run(
  [word = "", ...args]: readonly string[],
  signal: AbortSignal,
): Promise<number> {
  if (["--version", "-v", "version"].includes(word)) {
    return print(`${NAME} ${PLUGINS_VERSION}`);
  }
  if (["--help", "-h", "help"].includes(word)) return print(formatHelp());
  const command = Object.hasOwn(COMMANDS, word) ? COMMANDS[word] : undefined;
  if (command === undefined) {
    throw refuse(NAME, `there is no command "${word}"`);
  }
  const world: CommandWorld = {
    env: Deno.env.toObject(),
    knownNames: [...pluginNames, ...programNames],
    pluginNames,
    onStdout: print,
    onStderr: (text) => writeStderr(text),
    signal,
  };
  return await (await command.load())(args, world);
}

function print(text: string): number {
  return writeStdout(`${text}\n`) === undefined ? 0 : 1;
}

function formatHelp(): string {
  const width = Math.max(...Object.keys(COMMANDS).map(({ length }) => length));
  const commands = Object.entries(COMMANDS)
    .map(([word, { summary }]) => `  ${word.padEnd(width)}  ${summary}`);
  return [
    `${NAME}: a CNI plugin that attaches a pod to several networks. A runtime`,
    "calls it without arguments.",
    "",
    `Usage: ${NAME} COMMAND [FLAGS]`,
    "",
    ...commands,
    "",
    `See ${NAME} COMMAND --help, and ${NAME} --version.`,
  ].join("\n");
}

/**
 * Lets the first signal ask the command to end. A second signal or the end of
 * the grace period ends the process.
 */
function listenToSignals(): { signal: AbortSignal; ended: Promise<number> } {
  const controller = new AbortController();
  const { promise: ended, resolve } = Promise.withResolvers<number>();
  for (const [name, number] of Object.entries(SIGNALS)) {
    Deno.addSignalListener(name as keyof typeof SIGNALS, () => {
      const code = 128 + number;
      if (controller.signal.aborted) Deno.exit(code);
      controller.abort(new Error(`interrupted by ${name}`));
      AbortSignal.timeout(GRACE_MS)
        .addEventListener("abort", () => resolve(code));
    });
  }
  return { signal: controller.signal, ended };
}

main();
