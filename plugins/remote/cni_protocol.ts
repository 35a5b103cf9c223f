/**
 * Thick multus' protocol: a request for every command, with the environment and the
 * configuration.
 *
 * Source: multus-cni pkg/server/api.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { isObject, type JsonObject } from "../../base/json/json.ts";
import { parseObject } from "../../base/json/parse_object.ts";
import type { Result } from "../../cni/result/result.ts";
import { decodeResult } from "../../cni/result/decoding.ts";
import { isSpecVersion } from "../../cni/version.ts";
import { parseDaemonError } from "../../cni/invoke/daemon_answer.ts";
import type { RemoteCall } from "./call.ts";
import { DaemonMissing, OWN_CODE, UnusableResult } from "./daemon_errors.ts";
import { type HttpAnswer } from "./http.ts";

const SOCKET_HOST = "dummy";

/** The variables of a request. Daemons expect these even if they are empty. */
const ALWAYS = [
  ...["CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"],
  ...["CNI_ARGS", "CNI_PATH"],
];
/** Source: OpenTelemetry, environment variables as context carriers. */
const TRACE = ["TRACEPARENT", "TRACESTATE", "BAGGAGE"];

/** Statuses with which a daemon refuses an unknown command. */
const UNKNOWN_STATUS: readonly number[] = [404, 405, 501];

/** Makes the daemon run ADD. */
export async function add(call: RemoteCall): Promise<Result> {
  const answer = await post(call);
  if (answer.status !== 200) throw refusalOf(call, answer);
  checkForError(answer.body);
  try {
    return resultOf(answer.body);
  } catch (cause) {
    throw new UnusableResult("the result cannot be used", { cause });
  }
}

/** Makes the daemon run DEL, CHECK or GC. */
export async function run(call: RemoteCall): Promise<void> {
  const answer = await post(call);
  const { status } = answer;
  if (status === 200) return checkBody(answer.body);
  // A daemon might not support these commands.
  const isOptional = ["CHECK", "GC"].includes(call.command);
  if (isOptional && UNKNOWN_STATUS.includes(status)) return;
  throw refusalOf(call, answer);
}

/**
 * Runs STATUS; if the daemon does not support it, requests whether the daemon is
 * ready.
 */
export async function status(call: RemoteCall): Promise<void> {
  const answer = await post(call);
  if (answer.status === 200) return checkBody(answer.body);
  if (!UNKNOWN_STATUS.includes(answer.status)) throw refusalOf(call, answer);
  for (const path of ["/readyz", "/healthz"]) {
    const { status, body } = await call.request({
      method: "GET",
      path,
      host: SOCKET_HOST,
      body: "",
    });
    if (status === 200) return;
    if (UNKNOWN_STATUS.includes(status)) continue;
    throw new CniError(
      ErrorCode.PluginNotAvailable,
      `The daemon at "${call.socket}" is not ready: status ${status}`,
      { details: startOf(body) },
    );
  }
}

function post(call: RemoteCall): Promise<HttpAnswer> {
  const body = { env: envOf(call), config: call.stdin.toBase64() };
  return call.request({
    method: "POST",
    path: "/cni",
    host: SOCKET_HOST,
    body: JSON.stringify(body),
  });
}

function envOf({ env, envAll }: RemoteCall): Record<string, string> {
  const always = ALWAYS.map((name) => [name, env[name] ?? ""]);
  const more = envAll
    ? Object.entries(env)
    : Object.entries(env).filter(([name]) =>
      name.startsWith("CNI_") || TRACE.includes(name)
    );
  return Object.fromEntries([...more, ...always]);
}

/** Reads `{"Result": …}`, which multus returns, or the result itself. */
function resultOf(body: string): Result {
  const document = parseObject(body);
  if (document === undefined) {
    throw new CniError(
      body.trim() === "" ? ErrorCode.Internal : ErrorCode.DecodingFailure,
      body.trim() === ""
        ? "The daemon returned no result"
        : "Cannot decode the daemon's answer: it is not a JSON object",
      { details: startOf(body) },
    );
  }
  const [, wrapped] = Object.entries(document)
    .find(([key]) => key.toLowerCase() === "result") ?? [undefined, document];
  const version = isObject(wrapped) ? wrapped["cniVersion"] : undefined;
  if (!isObject(wrapped) || !isSpecVersion(String(version))) {
    throw new CniError(
      ErrorCode.DecodingFailure,
      "Cannot decode the daemon's result: it has no known cniVersion",
      { details: startOf(body) },
    );
  }
  const result = decodeResult(wrapped as JsonObject);
  checkInterfaces(result);
  return result;
}

/** Checks that addresses belong to interfaces that the result lists. */
function checkInterfaces({ interfaces, ips }: Result): void {
  for (const { address, interface: index } of ips) {
    if (index === undefined || (index >= 0 && index < interfaces.length)) {
      continue;
    }
    throw new CniError(
      ErrorCode.DecodingFailure,
      "Cannot use the daemon's result: " +
        `${address} belongs to interface ${index}, which it does not list`,
    );
  }
}

/** Checks for an error, because some daemons report errors with status 200. */
function checkForError(body: string): void {
  const reported = errorIn(body);
  if (reported !== undefined) throw reported;
}

/** Parses the error that a daemon reports. Code 0 means no error. */
function errorIn(body: string): CniError | undefined {
  const error = parseDaemonError(body);
  return error?.code === 0 ? undefined : error;
}

/** Checks that a response without a result is empty, or an object. */
function checkBody(body: string): void {
  checkForError(body);
  if (body.trim() === "" || parseObject(body) !== undefined) return;
  throw new CniError(
    ErrorCode.DecodingFailure,
    "Cannot decode the daemon's answer: it is not a JSON object",
    { details: startOf(body) },
  );
}

/** Returns the error that the daemon reports, or an error with its status. */
function refusalOf(
  { command, socket, path }: RemoteCall,
  { status, body }: HttpAnswer,
): CniError {
  const reported = errorIn(body);
  if (reported !== undefined) return reported;
  const Kind = status === 404 ? DaemonMissing : CniError;
  return new Kind(
    command === "STATUS" ? ErrorCode.PluginNotAvailable : OWN_CODE,
    `The daemon at "${socket}" answered "${
      path("/cni")
    }" with status ${status}`,
    { details: startOf(body) },
  );
}

/**
 * The longest part of a response in errors. Go's errors contain the cause at the end.
 */
const SHOWN = 2000;

/** Returns the start of a response, for errors. */
export function startOf(body: string): string {
  const text = body.trim();
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
}
