/**
 * The frame around a plugin: reads the call, checks it in the order that
 * runtimes know, runs the operation, prints once.
 *
 * @module
 */

import { type CmdArgs, type Command, readCmdArgs } from "./args.ts";
import { toCniError } from "./error.ts";
import { type Delegate, delegateTo } from "./invoke/delegate.ts";
import { createInvoker } from "./invoke/in_process.ts";
import type {
  DispatchInput,
  DispatchOutput,
  PluginLookup,
} from "./invoke/invoker.ts";
import { decode, decodeLeniently } from "./json.ts";
import { createLog, type Log } from "./log.ts";
import type { Call, Plugin } from "./plugin.ts";
import {
  checkNetns,
  checkVersion,
  isCommand,
  readRequest,
  type Request,
  unknownCommand,
} from "./request.ts";
import type { Result } from "./result.ts";
import { formatResult, parsePrevResult } from "./result_versions.ts";
import type { NetConf } from "./types.ts";
import { CURRENT_VERSION, isSpecVersion } from "./version.ts";

/** The release of these plugins. */
export const PLUGINS_VERSION = "0.1.0";

/** The name under which each operation of a plugin is called. */
const OPERATIONS = {
  ADD: "add",
  DEL: "del",
  CHECK: "check",
  GC: "gc",
  STATUS: "status",
} as const satisfies Record<Command, keyof Plugin>;

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
  let stderr = "", cniVersion: string = CURRENT_VERSION;
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
    const request = readRequest(input.stdin);
    if (isSpecVersion(request.cniVersion)) cniVersion = request.cniVersion;
    if (!isCommand(command)) throw unknownCommand(command);
    checkVersion(plugin, command, request.cniVersion);
    const run = { plugin, command, args, request, input, onStderr };
    return { stdout: await runOperation(run), stderr, exitCode: 0 };
  } catch (error) {
    const object = toCniError(error).toObject(cniVersion);
    return { stdout: JSON.stringify(object, null, 4), stderr, exitCode: 1 };
  }
}

/** All that one operation needs. */
interface Run {
  readonly plugin: Plugin;
  readonly command: Command;
  readonly args: CmdArgs;
  readonly request: Request;
  readonly input: DispatchInput;
  readonly onStderr: (text: string) => void;
}

async function runOperation(run: Run): Promise<string> {
  const { plugin, command, args, input, request } = run;
  // On ADD before anything is done, so that stdout never holds a result and an
  // error; on DEL afterwards, for what can be cleaned up shall be.
  if (command === "ADD") checkNetns(args, input.hostNetns);
  const call = createCall(run);
  const result = await plugin[OPERATIONS[command]]?.(call);
  if (command === "DEL") checkNetns(args, input.hostNetns);
  if (command !== "ADD" || !result) return "";
  try {
    return formatResult(result, request.cniVersion);
  } catch (error) {
    // No runtime can use what it is not told of: nothing may stay.
    await plugin.del?.(call);
    throw error;
  }
}

function createCall(run: Run): Call {
  const { plugin, command, args, request, input, onStderr } = run;
  const { name: network, cniVersion, bytes: stdin } = request;
  const { env, invoker, hostNetns } = input;
  const log = createLog({
    plugin: plugin.name,
    command,
    containerId: args.containerId,
    ifName: args.ifName,
    network,
  }, onStderr);
  const config = decodeConfig(run, log);
  const delegate = (type: string): Delegate =>
    delegateTo(type, {
      invoker,
      env,
      stdin,
      cniVersion,
      hostNetns,
      log,
      onStderr,
    });
  let prevResult: { readonly value: Result | undefined } | undefined;
  return {
    command,
    args,
    config,
    network,
    cniVersion,
    hostNetns,
    log,
    delegate,
    get prevResult(): Result | undefined {
      prevResult ??= { value: parsePrevResult({ ...config, cniVersion }) };
      return prevResult.value;
    },
    get ipam(): Delegate {
      return delegate(config.ipam?.type ?? "");
    },
  };
}

/** On tear-down a key that cannot be read is done without: ADD would have refused it. */
function decodeConfig({ plugin, command, request }: Run, log: Log): NetConf {
  const schema = plugin.configSchema();
  const what = "network configuration";
  return command === "DEL" || command === "GC"
    ? decodeLeniently(
      schema,
      request.document,
      what,
      (problem) => log.warn("Ignoring a configuration key", { problem }),
    )
    : decode(schema, request.document, what);
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
  const { stdout, exitCode } = await dispatch(plugin, {
    env: Deno.env.toObject(),
    stdin: readStdin,
    invoker: createInvoker(dispatch, lookup),
    hostNetns: CURRENT_NETNS,
    onStderr: (text) => writeAll(Deno.stderr, text),
  });
  Deno.exit(writeAll(Deno.stdout, stdout) ? exitCode : 1);
}

/** The namespace of this thread, where a plugin stands for the host. */
const CURRENT_NETNS = "/proc/thread-self/ns/net";

function readStdin(): Uint8Array {
  const chunks: Uint8Array[] = [];
  for (;;) {
    const chunk = new Uint8Array(64 * 1024);
    const length = Deno.stdin.readSync(chunk);
    if (length === null) break;
    chunks.push(chunk.subarray(0, length));
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

/** Writes all of a text; false if nobody reads it any more. */
function writeAll(
  stream: { writeSync(bytes: Uint8Array): number },
  text: string,
): boolean {
  let bytes = new TextEncoder().encode(text);
  try {
    while (bytes.length > 0) bytes = bytes.subarray(stream.writeSync(bytes));
    return true;
  } catch {
    return false;
  }
}
