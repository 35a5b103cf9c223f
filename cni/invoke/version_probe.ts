/**
 * Asking a plugin which versions of the specification it supports.
 *
 * @module
 */

import * as z from "zod/mini";
import type { Environment } from "../../base/process/environment.ts";
import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import { optional } from "../config/types.ts";
import {
  decode,
  once,
  parseJson,
  type SchemaOutput,
} from "../../base/json/json.ts";
import { CURRENT_VERSION } from "../version.ts";
import { execPlugin } from "./exec.ts";
import type { CallContext, Invocation } from "../call/context.ts";
import { runtimeEnv } from "./runtime_env.ts";

/** A plugin's answer to VERSION. */
export interface VersionInfo {
  /** The version of the answer itself; plugins of 0.1.0 do not report it. */
  readonly cniVersion?: string;
  /** The versions that the plugin supports, in its order. */
  readonly supportedVersions: readonly string[];
}

/** Options of a probe. The plugin's log is discarded by default. */
export type VersionProbe =
  & Pick<CallContext, "env" | "signal">
  & Partial<Pick<CallContext, "onStderr">>;

/** The answer of plugins that are older than VERSION. */
const UNKNOWN_TO_PLUGIN = "unknown CNI_COMMAND: VERSION";

/**
 * Asks the executable at `path` for its versions.
 *
 * Source: containernetworking/cni pkg/invoke/exec.go `GetVersionInfo`.
 *
 * @throws {CniError} The plugin's own error, 999 if it could not be run, 6 if its
 *   answer is not a list of versions
 */
export async function getVersionInfo(
  path: string,
  { env, signal, onStderr = (): void => {} }: VersionProbe,
): Promise<VersionInfo> {
  return await askForVersions(
    env,
    "dummy",
    (question) => execPlugin(path, { ...question, onStderr, signal }),
  );
}

/**
 * Asks a plugin for its versions through any invoker.
 *
 * @param env The environment of the runtime
 * @param path CNI_PATH, which the plugin itself does not use
 * @param run Runs the plugin and returns its output
 * @throws {CniError} Any error of `run`, or 6 if the answer is not a list of versions
 */
export async function askForVersions(
  env: Environment,
  path: string,
  run: (question: Pick<Invocation, "env" | "stdin">) => Promise<string>,
): Promise<VersionInfo> {
  try {
    const stdin = new TextEncoder()
      .encode(`{"cniVersion":"${CURRENT_VERSION}"}`);
    return decodeVersionInfo(await run({ env: probeEnv(env, path), stdin }));
  } catch (error) {
    const isOld = error instanceof CniError &&
      error.message === UNKNOWN_TO_PLUGIN;
    if (isOld) return { supportedVersions: ["0.1.0"] };
    throw error;
  }
}

/** The earliest plugins require these variables for every command. */
function probeEnv(env: Environment, path: string): Environment {
  const [netns, ifName] = ["dummy", "dummy"];
  return runtimeEnv({ command: "VERSION", netns, ifName, path }, env);
}

const answerSchema = once(() =>
  z.looseObject({
    cniVersion: optional(z.string()),
    supportedVersions: optional(z.array(z.string())),
  })
);

type Answer = SchemaOutput<ReturnType<typeof answerSchema>>;

/**
 * Decodes a plugin's output for VERSION.
 *
 * Source: containernetworking/cni pkg/version/plugin.go `PluginDecoder.Decode`.
 *
 * @throws {CniError} 6 if it is not a list of versions
 */
export function decodeVersionInfo(stdout: string): VersionInfo {
  const { cniVersion = "", supportedVersions = [] } = decodeAnswer(stdout);
  if (cniVersion === "") throw undecodable("missing field cniVersion");
  if (supportedVersions.length > 0) return { cniVersion, supportedVersions };
  // The version that introduced the command had no list.
  if (cniVersion !== "0.2.0") {
    throw undecodable("missing field supportedVersions");
  }
  return { cniVersion, supportedVersions: ["0.1.0", "0.2.0"] };
}

function decodeAnswer(stdout: string): Answer {
  try {
    return decode(answerSchema(), parseJson(stdout, "answer"), "answer");
  } catch (error) {
    throw undecodable(describeError(error));
  }
}

function undecodable(why: string): CniError {
  return new CniError(
    ErrorCode.DecodingFailure,
    `decoding version info: ${why}`,
  );
}
