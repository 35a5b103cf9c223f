/**
 * The frame around a plugin: reads the call, checks it in the Go library's order,
 * runs the operation, and prints once.
 *
 * @module
 */

import { formatVersions, printAndExit } from "./call/answer.ts";
import { missingVariables, readCmdArgs } from "./call/args.ts";
import { CniError, ErrorCode, formatFailure } from "../base/error.ts";
import { createInvoker, type PluginLookup } from "./invoke/in_process.ts";
import type { DispatchInput, DispatchOutput } from "./call/context.ts";
import { OWN_NETNS, shareNetnsId } from "./call/own_netns.ts";
import type { Plugin } from "./plugin.ts";
import {
  ASK_COMMANDS,
  QUESTION_KEY,
  QUESTION_VARIABLE,
  REPAIR,
} from "./call/variables.ts";
import {
  calledAs,
  readEnvironment,
  readStdin,
  readStdinSoon,
  sendConsoleToStderr,
  writeStderr,
  writeStdout,
} from "../base/process/stdio.ts";
import { CURRENT_VERSION } from "./version.ts";
import { PLUGINS_VERSION } from "../base/process/build_identity.ts";
import { onWrongNetns } from "../ffi/own_netns.ts";

/** The release of the Go plugins that these plugins replace. */
const GO_PLUGINS_VERSION = "1.10.0";
const VERSIONS = `${GO_PLUGINS_VERSION}+${PLUGINS_VERSION}`;

/**
 * Runs one call of a plugin, from the environment and stdin to the output.
 *
 * It never throws and never prints; a failure is an exit code and an error
 * document. Whatever happens, stdout is one JSON document or nothing.
 *
 * Source: containernetworking/cni pkg/skel/skel.go `pluginMain`.
 */
export async function dispatch(
  plugin: Plugin,
  input: DispatchInput,
): Promise<DispatchOutput> {
  let stderr = "";
  const onStderr = (text: string): void => {
    stderr += text;
    input.onStderr?.(text);
  };
  try {
    const given = input.env["CNI_COMMAND"] ?? "";
    if (given === "") {
      onStderr(introduce(plugin));
      return { stdout: "", stderr, exitCode: 0 };
    }
    // A repair has the variables and the configuration of CHECK, and runs it.
    const isRepair = given === REPAIR;
    const command = isRepair ? "CHECK" : given;
    const args = readCmdArgs(command, input.env);
    if (command === "VERSION") {
      const question = input.env[QUESTION_VARIABLE];
      const stdout = question && question !== ASK_COMMANDS && plugin.answerTools
        ? await answer(plugin, input.stdin())
        : formatVersions(
          plugin.versions,
          await readIfPossible(input),
          question,
        );
      return { stdout, stderr, exitCode: 0 };
    }
    shareNetnsId(input.caller, args);
    // Loaded lazily: VERSION does not need the rest.
    const { runCommand } = await import("./call/operation.ts");
    const ownInput = { ...input, onStderr };
    const call = { plugin, command, isRepair, args, input: ownInput };
    return { ...await runCommand(call), stderr };
  } catch (error) {
    return { ...formatFailure(error, CURRENT_VERSION), stderr };
  }
}

/** Reads the input of VERSION; undefined if it cannot be read. */
async function readIfPossible(
  { stdin, stdinSoon }: DispatchInput,
): Promise<Uint8Array | undefined> {
  try {
    return await stdinSoon?.() ?? stdin();
  } catch {
    return undefined;
  }
}

/** Answers VERSION and the questions of tools. */
async function answer(plugin: Plugin, stdin: Uint8Array): Promise<string> {
  const { [QUESTION_KEY]: question } = JSON.parse(
    new TextDecoder().decode(stdin),
  );
  const versions = JSON.parse(formatVersions(plugin.versions));
  const reply = await plugin.answerTools?.(question, plugin);
  return JSON.stringify({ ...versions, [QUESTION_KEY]: reply }) + "\n";
}

/**
 * The text that a plugin prints without a command. nerdctl and Nomad read the
 * version and compare it with releases of the Go plugins, so that comes first;
 * this project's own release is the build metadata of the semantic version.
 *
 * Source: containernetworking/plugins pkg/utils/buildversion.
 *
 * @throws {CniError} 4 if the plugin has no such text
 */
function introduce({ name, versions, about }: Plugin): string {
  if (about === "") throw missingVariables(["CNI_COMMAND"]);
  return `${about ?? `CNI ${name} plugin v${VERSIONS}`}\n` +
    `CNI protocol versions supported: ${versions.join(", ")}\n`;
}

/**
 * Runs this process as a plugin: reads its environment and stdin, prints, exits.
 *
 * @param lookup Finds plugins that can be delegated to without a process
 * @param stdin Reads the whole configuration; by default, this process's stdin
 */
export async function runMain(
  plugin: Plugin,
  lookup: PluginLookup = () => undefined,
  stdin: () => Uint8Array = readStdin,
): Promise<never> {
  sendConsoleToStderr();
  // A plugin that waits forever lets the process end by itself. That must
  // not look like success.
  Deno.exitCode = 1;
  let version: string = CURRENT_VERSION;
  onWrongNetns((error) => {
    const { stdout, exitCode } = formatFailure(error, version);
    writeStdout(stdout);
    return exitCode;
  });
  printAndExit(
    await dispatch(plugin, {
      ...processInput(lookup),
      stdin,
      onErrorVersion: (known): void => {
        version = known;
      },
    }),
  );
}

/**
 * Runs this process as the plugin under whose name it was invoked, for an
 * executable with several names. An unknown name is error 4 of the protocol.
 *
 * @param lookup Finds plugins by type
 */
export async function runNamed(lookup: PluginLookup): Promise<never> {
  const name = calledAs();
  const plugin = await lookup(name);
  if (plugin !== undefined) return await runMain(plugin, lookup);
  const error = new CniError(
    ErrorCode.InvalidEnvironment,
    `no plugin is named "${name}"`,
  );
  printAndExit(formatFailure(error, CURRENT_VERSION));
}

/**
 * Returns this process's input; stdin is read on demand.
 *
 * @param lookup As {@linkcode runMain}
 */
export function processInput(
  lookup: PluginLookup = () => undefined,
): DispatchInput {
  return {
    env: readEnvironment(),
    stdin: readStdin,
    stdinSoon: readStdinSoon,
    invoker: createInvoker(dispatch, lookup),
    hostNetns: OWN_NETNS,
    onStderr: (text) => writeStderr(text),
    keepsLog: true,
  };
}
