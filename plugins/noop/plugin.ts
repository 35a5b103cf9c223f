/**
 * noop: a plugin that does nothing, records how it was called and answers what
 * it was told: a double for tests of runtimes, in place of any plugin.
 *
 * The test writes a debug file, names it by `DEBUG=PATH` in CNI_ARGS or by
 * `debugFile` in the configuration, and reads it again afterwards.
 *
 * ```json
 * { "type": "noop", "debugFile": "/tmp/debug", "commandLog": "/tmp/commands" }
 * ```
 *
 * It touches nothing but these files, on every command, DEL included.
 *
 * @module
 */

import * as z from "zod/mini";
import { parseArgs } from "../../cni/args.ts";
import { CniError, ErrorCode } from "../../cni/error.ts";
import type { DispatchInput } from "../../cni/invoke/invoker.ts";
import { decode, parseJson, type SchemaOutput } from "../../cni/json.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import { checkNetns } from "../../cni/request.ts";
import type { Result } from "../../cni/result.ts";
import { encodeResult } from "../../cni/result_encoding.ts";
import { netConf, once, optional } from "../../cni/types.ts";
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
    /** Path of the debug file, unless CNI_ARGS has one. */
    debugFile: optional(z.string()),
    /** Path of a file to which every call is added. */
    commandLog: optional(z.string()),
  })
);

/** The decoded configuration. */
export type NoopConfig = SchemaOutput<ReturnType<typeof noopSchema>>;

/** What noop prints, and how it ends. */
export interface Ending {
  readonly stdout: string;
  readonly exitCode: number;
}

/**
 * Makes the plugin for one call.
 *
 * @param end Prints and ends the process. What noop answers need not be a
 *   result, nor come with the exit status of a plugin
 * @throws {CniError} If there is CNI_ARGS and it leads to no debug file
 *
 * Source: containernetworking/cni plugins/test/noop/main.go.
 */
export function createNoop(
  input: DispatchInput,
  end: (ending: Ending) => never,
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

/** The first is no version of the specification: readers must get over it. */
const DEFAULT_VERSIONS = ["0.-42.0", ...SPEC_VERSIONS];

/** Lists the versions to claim. The configuration is read only if it must be. */
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
 * Does what the debug file says.
 *
 * @throws {CniError} What the file says; 5, 6 or 7 if one of the files cannot
 *   be used; 1, 6 or 7 if there is no prevResult to answer with, or no valid one
 */
function follow(call: Call<NoopConfig>, input: DispatchInput): Ending {
  // Here the prevResult is decoded: a runtime that sends a wrong one shall hear of it.
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

/** Blocks, so that nothing but a signal gets in between. */
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
