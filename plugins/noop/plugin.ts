/**
 * noop: a plugin that creates nothing, records its calls and returns a specified
 * result, as a test double for any plugin in tests of runtimes.
 *
 * The test writes a debug file, names it with `DEBUG=PATH` in CNI_ARGS or with
 * `debugFile` in the configuration, and reads it again afterwards.
 *
 * ```json
 * { "type": "noop", "debugFile": "/tmp/debug", "commandLog": "/tmp/commands" }
 * ```
 *
 * It changes only these files, on every command, including DEL.
 *
 * @module
 */

import * as z from "zod/mini";
import { parseArgs } from "../../cni/call/args.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import type { DispatchInput } from "../../cni/call/context.ts";
import {
  decode,
  once,
  parseJson,
  type SchemaOutput,
} from "../../base/json/json.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import { checkNetns } from "../../cni/call/request.ts";
import type { Result } from "../../cni/result/result.ts";
import { encodeResult } from "../../cni/result/encoding.ts";
import { netConf, optional } from "../../cni/config/types.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import {
  logCall,
  readScript,
  recordCall,
  type Script,
  writeCall,
} from "./debug_file.ts";

const noopSchema = once(() =>
  netConf({
    /** Path of the debug file, unless CNI_ARGS contains a path. */
    debugFile: optional(z.string()),
    /** Path of the file that records every call. */
    commandLog: optional(z.string()),
  })
);

/** The decoded configuration. */
export type NoopConfig = SchemaOutput<ReturnType<typeof noopSchema>>;

/** Output and exit status of noop. */
export interface NoopResult {
  readonly stdout: string;
  readonly exitCode: number;
}

/**
 * Creates the plugin for a single call.
 *
 * @param end Prints and ends the process. Noop's output need neither be a result, nor
 * match the exit status of a plugin
 * @throws {CniError} If CNI_ARGS is set and names no debug file
 *
 * Source: containernetworking/cni plugins/test/noop/main.go.
 */
export function createNoop(
  input: DispatchInput,
  end: (ending: NoopResult) => never,
): Plugin<NoopConfig> {
  const act = (call: Call<NoopConfig>): never => {
    const ending = follow(call, input);
    if (call.command === "DEL") checkNetns(call.args, call.hostNetns);
    return end(ending);
  };
  return definePlugin({
    name: "noop",
    versions: listVersions(input),
    configSchema: noopSchema,
    add: act,
    check: act,
    del: act,
    gc: act,
    status: act,
  });
}

/**
 * The first version is not in the specification, but readers must tolerate it.
 */
const DEFAULT_VERSIONS = ["0.-42.0", ...SPEC_VERSIONS];

/** Lists the versions to claim. Reads the configuration only if necessary. */
function listVersions({ env, stdin }: DispatchInput): readonly string[] {
  const args = env["CNI_ARGS"] ?? "";
  if (args === "") return DEFAULT_VERSIONS;
  const path = parseArgs(args).get("DEBUG") ?? debugFileOf(stdin());
  if (path) return readScript(path).ReportVersionSupport ?? DEFAULT_VERSIONS;
  throw new CniError(
    ErrorCode.InvalidEnvironment,
    `Cannot find a debug file: neither CNI_ARGS "${args}" nor the configuration names one`,
  );
}

function debugFileOf(stdin: Uint8Array): string | undefined {
  const what = "network configuration";
  return decode(noopSchema(), parseJson(stdin, what), what).debugFile;
}

/**
 * Carries out the instructions of the debug file.
 *
 * @throws {CniError} The file's error; 5, 6 or 7 if one of the files is
 *   unusable; 1, 6 or 7 if the prevResult is needed, but missing or invalid
 */
function follow(call: Call<NoopConfig>, input: DispatchInput): NoopResult {
  // Decodes prevResult, so that a runtime that sends a malformed prevResult gets an
  // error.
  const { args, config, prevResult, stdin } = call;
  const path = parseArgs(args.args).get("DEBUG") ?? config.debugFile ?? "";
  if (path === "") {
    input.onStderr?.("CNI_ARGS or config empty, no debug behavior\n");
    return { stdout: "{}", exitCode: 0 };
  }
  const script = readScript(path);
  const record = recordCall(input.env, stdin);
  writeCall(path, script, record);
  if (config.commandLog) logCall(config.commandLog, record);

  sleep(script.SleepSeconds ?? 0);
  input.onStderr?.(script.ReportStderr ?? "");
  if (script.ReportError) {
    const code = script.ReportErrorCode || ErrorCode.Internal;
    throw new CniError(code, script.ReportError);
  }
  const stdout = answer(script, prevResult, call.cniVersion);
  return { stdout, exitCode: Math.max(script.ExitWithCode ?? 0, 0) };
}

/** Blocks, so that only a signal can interrupt it. */
function sleep(seconds: number): void {
  const nobody = new Int32Array(new SharedArrayBuffer(4));
  Atomics.wait(nobody, 0, 0, seconds * 1000);
}

function answer(
  { ReportResult = "" }: Script,
  prevResult: Result | undefined,
  cniVersion: string,
): string {
  const injects = ReportResult === "INJECT-DNS";
  if (ReportResult !== "PASSTHROUGH" && !injects) return ReportResult;
  if (prevResult === undefined) {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `Cannot report ${ReportResult}: the configuration has no prevResult`,
    );
  }
  const dns = injects
    ? { ...prevResult.dns, nameservers: ["1.2.3.4"] }
    : prevResult.dns;
  return JSON.stringify(encodeResult({ ...prevResult, dns }, cniVersion));
}
