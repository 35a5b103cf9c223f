/**
 * The frame around a plugin: reads the call, checks it in the order that
 * runtimes know, runs the operation, prints once.
 *
 * @module
 */

import { formatVersions, printAndExit } from "./answer.ts";
import { missingVariables, readCmdArgs } from "./args.ts";
import { formatFailure } from "./error.ts";
import { createInvoker } from "./invoke/in_process.ts";
import type {
  DispatchInput,
  DispatchOutput,
  PluginLookup,
} from "./invoke/invoker.ts";
import type { Plugin } from "./plugin.ts";
import { readStdin, sendConsoleToStderr, writeStderr } from "./stdio.ts";
import { CURRENT_VERSION } from "./version.ts";

/** The release of these plugins. */
export const PLUGINS_VERSION = "0.1.0";

/**
 * Runs one call of a plugin: from the environment and stdin to what is printed.
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
    const command = input.env["CNI_COMMAND"] ?? "";
    if (command === "") {
      onStderr(introduce(plugin));
      return { stdout: "", stderr, exitCode: 0 };
    }
    const args = readCmdArgs(command, input.env);
    if (command === "VERSION") {
      return { stdout: formatVersions(plugin.versions), stderr, exitCode: 0 };
    }
    // Loaded here: who only asks for the versions need not wait for the rest.
    const { runCommand } = await import("./operation.ts");
    const call = { plugin, command, args, input, onStderr };
    return { ...await runCommand(call), stderr };
  } catch (error) {
    return { ...formatFailure(error, CURRENT_VERSION), stderr };
  }
}

/**
 * Source: containernetworking/plugins pkg/utils/buildversion, which Nomad parses.
 *
 * @throws {CniError} 4 if the plugin has nothing to say
 */
function introduce({ name, versions, about }: Plugin): string {
  if (about === "") throw missingVariables(["CNI_COMMAND"]);
  return `${about ?? `CNI ${name} plugin v${PLUGINS_VERSION}`}\n` +
    `CNI protocol versions supported: ${versions.join(", ")}\n`;
}

/**
 * Runs this process as a plugin: reads its environment and stdin, prints, exits.
 *
 * @param lookup Finds plugins that need no process of their own when delegated to
 */
export async function runMain(
  plugin: Plugin,
  lookup: PluginLookup = () => undefined,
): Promise<never> {
  sendConsoleToStderr();
  // For a plugin that waits for what never comes: then the process ends by
  // itself, and that is no success.
  Deno.exitCode = 1;
  printAndExit(await dispatch(plugin, processInput(lookup)));
}

/**
 * Returns what this process was run with; stdin is read when it is asked for.
 *
 * @param lookup As {@linkcode runMain}
 */
export function processInput(
  lookup: PluginLookup = () => undefined,
): DispatchInput {
  return {
    env: Deno.env.toObject(),
    stdin: readStdin,
    invoker: createInvoker(dispatch, lookup),
    hostNetns: CURRENT_NETNS,
    onStderr: (text) => writeStderr(text),
  };
}

/** The namespace of this thread, where a plugin stands for the host. */
const CURRENT_NETNS = "/proc/thread-self/ns/net";
