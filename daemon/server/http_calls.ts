/**
 * Calls over HTTP: `POST /cni` with the environment and the configuration of a call, in
 * thick multus's protocol.
 *
 * Source: multus-cni pkg/server/api/types.go `Request`, pkg/server/server.go
 * `extractCniData`.
 *
 * @module
 */

import { buildIdentity } from "../../base/process/build_identity.ts";
import type { Environment } from "../../base/process/environment.ts";
import { describeError } from "../../base/error.ts";
import {
  isObject,
  type JsonObject,
  type JsonValue,
  parseJson,
} from "../../base/json/json.ts";
import type { DispatchOutput } from "../../cni/call/context.ts";
import { decodeResult } from "../../cni/result/decoding.ts";
import { encodeResult } from "../../cni/result/encoding.ts";
import { escapeAsGo } from "../../base/json/json_bytes.ts";

/** A request that is not a call; the answer is its text. */
export class RequestError extends Error {
  /** Names the class in texts. */
  override readonly name = "RequestError";
}

/** The CNI version of the protocol's results. */
export const RESULT_VERSION = "1.1.0";

/** CNI_PATH of a request without it. */
export const CNI_PATH = "/opt/cni/bin";

/** The call in a request. */
export interface HttpCall {
  /** The CNI_* variables that the protocol passes on. */
  readonly env: Environment;
  /** The configuration, byte for byte. */
  readonly config: Uint8Array;
  /** The caller's executable, if it is of this build. */
  readonly exe?: string;
}

/** The keys of a request that {@linkcode readCall} does not read. */
type Others = JsonObject;

/**
 * Reads the body of a request.
 *
 * @param check Checks the environment, and returns the variables of the call
 * @throws {RequestError} With the Go version's text
 */
export function readCall(
  body: string,
  check: (sent: Environment) => Environment = checkEnv,
): [call: HttpCall, others: Others] {
  const { env, config, build, exe, ...others } = parseBody(body);
  const isOwn = build === buildIdentity && typeof exe === "string";
  const call = {
    env: check(readEnv(env)),
    config: readConfig(config),
    ...isOwn && { exe },
  };
  return [call, others];
}

/**
 * Checks the environment of a call.
 *
 * DEL needs no namespace, as the specification says. Go multus refuses such a DEL, and
 * the container's resources remain.
 *
 * @param lenient Commands that do not need all variables
 * @returns The variables that the protocol passes on
 * @throws {RequestError} As {@linkcode readCall}
 */
export function checkEnv(
  sent: Environment,
  lenient: readonly string[] = ["DEL", "STATUS", "GC"],
): Environment {
  const missing = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_ARGS"]
    .find((name) => sent[name] === undefined);
  const command = sent["CNI_COMMAND"];
  if (command === undefined) throw refuse("unexpected or missing CNI_COMMAND");
  if (missing !== undefined && !lenient.includes(command)) {
    throw refuse(`missing ${missing}`);
  }
  return pickEnv(sent);
}

function refuse(why: string): RequestError {
  return new RequestError(`could not extract the CNI command args: ${why}`);
}

function parseBody(body: string): JsonObject {
  let value: unknown;
  try {
    value = parseJson(body, "the body");
  } catch (error) {
    throw new RequestError(describeError(error));
  }
  if (isObject(value)) return value as JsonObject;
  throw new RequestError("the body is not a JSON object");
}

function readEnv(value: JsonValue | undefined): Environment {
  if (value === undefined || value === null) return {};
  if (isObject(value)) {
    const isText = (item: unknown): boolean => typeof item === "string";
    if (Object.values(value).every(isText)) return value as Environment;
  }
  throw new RequestError(`"env" is not an object of strings`);
}

/** The default of the Go version, for hot-plug controllers. */
const IF_NAME = "eth0";

/**
 * Picks the variables of the call. All others belong to the caller, such as its PATH:
 * delegates get the daemon's PATH.
 */
function pickEnv(sent: Environment): Environment {
  const names = [
    "CNI_COMMAND",
    "CNI_CONTAINERID",
    "CNI_NETNS",
    "CNI_ARGS",
    "CNI_PATH",
  ];
  const picked = names.flatMap((name): [string, string][] => {
    const value = sent[name];
    return value === undefined ? [] : [[name, value]];
  });
  const ifName = sent["CNI_IFNAME"] ?? IF_NAME;
  return Object.fromEntries([...picked, ["CNI_IFNAME", ifName]]);
}

/** Go's []byte: base64. */
function readConfig(value: JsonValue | undefined): Uint8Array {
  if (value === undefined || value === null) return new Uint8Array();
  try {
    if (typeof value === "string") return Uint8Array.fromBase64(value);
  } catch {
    // Refused below.
  }
  throw new RequestError(`"config" is not base64`);
}

/** Runs the call that a body describes. */
export type RunBody = (
  body: string,
) => Promise<Pick<DispatchOutput, "stdout" | "exitCode">>;

/**
 * Answers `/healthz`, `/readyz`, and the paths of calls; never throws.
 *
 * @param paths The functions that run calls, by their paths
 * @param isEnding Reports whether the daemon is about to end
 * @returns Undefined for any other path
 */
export function answerCall(
  request: Request,
  paths: Readonly<Record<string, RunBody>>,
  isEnding: () => boolean,
): Promise<Response> | undefined {
  const { pathname } = new URL(request.url);
  if (pathname === "/healthz") return answerHealth(request, true);
  if (pathname === "/readyz") return answerHealth(request, !isEnding());
  const run = paths[pathname];
  return run && runCall(request, run);
}

async function answerHealth(
  { method, body }: Request,
  isGood: boolean,
): Promise<Response> {
  await body?.cancel();
  return ["GET", "POST"].includes(method)
    ? new Response(null, { status: isGood ? 200 : 500 })
    : refuseMethod();
}

async function runCall(request: Request, run: RunBody): Promise<Response> {
  if (request.method !== "POST") return refuseMethod();
  try {
    const { stdout, exitCode } = await run(decode(await request.bytes()));
    if (exitCode !== 0) return json(400, describeFailure(stdout));
    // Without a result, the body is empty.
    if (stdout === "") return new Response(null, { status: 200 });
    return json(200, { Result: toNewest(stdout) });
  } catch (error) {
    const isSenders = error instanceof RequestError;
    return text(isSenders ? 400 : 500, describeError(error));
  }
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new RequestError("the body is not UTF-8");
  }
}

/** Converts the result that a plugin has printed to the newest version. */
export function toNewest(stdout: string): JsonObject {
  return encodeResult(decodeResult(JSON.parse(stdout)), RESULT_VERSION);
}

/** Describes the error that a plugin has printed, in Go's order of keys. */
export function describeFailure(stdout: string): JsonObject {
  const document: unknown = JSON.parse(stdout);
  if (!isObject(document)) throw new Error(`not an error: ${stdout}`);
  const { code, msg, details } = document as JsonObject;
  return {
    code: code ?? 999,
    msg: msg ?? "",
    ...details !== undefined && { details },
  };
}

function json(status: number, document: JsonObject): Response {
  const body = escapeAsGo(JSON.stringify(document));
  const headers = { "content-type": "application/json" };
  return new Response(body, { status, headers });
}

function refuseMethod(): Response {
  return text(405, "Method not allowed");
}

/** As Go's http.Error. */
function text(status: number, message: string): Response {
  const headers = {
    "content-type": "text/plain; charset=utf-8",
    "x-content-type-options": "nosniff",
  };
  return new Response(`${message}\n`, { status, headers });
}
