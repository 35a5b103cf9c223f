/**
 * The frame around a plugin: reads the call, checks it in the order that
 * runtimes know, runs the operation, prints once.
 *
 * @module
 */

import { readCmdArgs } from "./args.ts";
import { describeError, formatFailure } from "./error.ts";
import { createInvoker } from "./invoke/in_process.ts";
import type {
  DispatchInput,
  DispatchOutput,
  PluginLookup,
} from "./invoke/invoker.ts";
import type { Plugin } from "./plugin.ts";
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
      onStderr(formatAbout(plugin));
      return { stdout: "", stderr, exitCode: 0 };
    }
    const args = readCmdArgs(command, input.env);
    if (command === "VERSION") {
      return { stdout: formatVersions(plugin), stderr, exitCode: 0 };
    }
    // Loaded here: who only asks for the versions need not wait for the rest.
    const { runCommand } = await import("./operation.ts");
    const call = { plugin, command, args, input, onStderr };
    return { ...await runCommand(call), stderr };
  } catch (error) {
    return { ...formatFailure(error, CURRENT_VERSION), stderr };
  }
}

/** Source: containernetworking/cni pkg/skel/skel.go, pkg/version/plugin.go. */
function formatVersions(plugin: Plugin): string {
  return JSON.stringify({
    cniVersion: CURRENT_VERSION,
    supportedVersions: plugin.versions,
  }) + "\n";
}

/** Source: containernetworking/plugins pkg/utils/buildversion, which Nomad parses. */
function formatAbout(plugin: Plugin): string {
  return `CNI ${plugin.name} plugin v${PLUGINS_VERSION}\n` +
    `CNI protocol versions supported: ${plugin.versions.join(", ")}\n`;
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
  const output = await dispatch(plugin, {
    env: Deno.env.toObject(),
    stdin: readStdin,
    invoker: createInvoker(dispatch, lookup),
    hostNetns: CURRENT_NETNS,
    onStderr: (text) => writeAll(Deno.stderr, text),
  });
  printAndExit(output);
}

/**
 * Prints what a plugin came to, and ends the process. What cannot be printed is
 * a failure; undoing what was done is then the runtime's, by DEL.
 */
export function printAndExit(
  { stdout, exitCode }: Pick<DispatchOutput, "stdout" | "exitCode">,
): never {
  const problem = writeAll(Deno.stdout, stdout);
  if (problem === undefined) Deno.exit(exitCode);
  writeAll(Deno.stderr, `Cannot write to stdout: ${problem}\n`);
  Deno.exit(1);
}

/** The namespace of this thread, where a plugin stands for the host. */
const CURRENT_NETNS = "/proc/thread-self/ns/net";

function readStdin(): Uint8Array {
  const chunks: Uint8Array[] = [];
  const buffer = new Uint8Array(64 * 1024);
  for (;;) {
    const length = Deno.stdin.readSync(buffer);
    if (length === null) break;
    chunks.push(buffer.slice(0, length));
  }
  return joinChunks(chunks);
}

function joinChunks(chunks: readonly Uint8Array[]): Uint8Array {
  const [first] = chunks;
  if (first !== undefined && chunks.length === 1) return first;
  const whole = new Uint8Array(
    chunks.reduce((length, chunk) => length + chunk.length, 0),
  );
  let offset = 0;
  for (const chunk of chunks) {
    whole.set(chunk, offset);
    offset += chunk.length;
  }
  return whole;
}

/** Writes all of a text; returns what is in the way if it cannot. */
function writeAll(
  stream: { writeSync(bytes: Uint8Array): number },
  text: string,
): string | undefined {
  let bytes = new TextEncoder().encode(text);
  try {
    while (bytes.length > 0) bytes = bytes.subarray(stream.writeSync(bytes));
    return undefined;
  } catch (error) {
    return describeError(error);
  }
}
