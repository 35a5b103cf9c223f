/**
 * The client side of thick multus' protocol: HTTP over a unix socket, without
 * `fetch`, whose first use takes 12 ms.
 *
 * Source: multus-cni pkg/server/api.
 *
 * @module
 */

import type { Environment } from "../../../base/process/environment.ts";
import { buildIdentity } from "../../../base/process/build_identity.ts";
import { CniError, ErrorCode, formatFailure } from "../../../base/error.ts";
import { parseObject } from "../../../base/json/parse_object.ts";
import { findFileId } from "../../../base/files/same_file.ts";
import {
  CURRENT_VERSION,
  isAtLeast,
  isSpecVersion,
} from "../../../cni/version.ts";
import type { ReceivedCall } from "../../../daemon/caller/hand_over.ts";
import { UnixStream } from "../../../ffi/socket/unix_stream.ts";
import { parseDaemonError } from "../../../cni/invoke/daemon_answer.ts";

/** A call, as this process received it. */
export interface ShimmedCall {
  /** The whole environment, including CNI_COMMAND. */
  readonly env: Environment;
  /** The configuration, unchanged. */
  readonly stdin: Uint8Array;
  /** The configuration's cniVersion, unchecked; "" if it has none. */
  readonly cniVersion: string;
}

/** The outcome of a call: what to print, and the exit code. */
export interface PrintedAnswer {
  /** A single JSON document, or nothing. */
  readonly stdout: string;
  /** 0 for success. */
  readonly exitCode: 0 | 1;
}

/** A response. */
export interface ThickResponse {
  readonly status: number;
  readonly body: string;
}

/** Why a response is missing: the request was not sent, or the outcome is unknown. */
export type NoResponse = "unreachable" | "lost";

/** Time limit of the request for the daemon's state, in ms. */
export const STATE_MS = 5000;

/** Time limit of a call, in ms: longer than runtimes wait for a plugin. */
const CALL_MS = 10 * 60_000;

/** Sends a request, and waits for the response. */
export function exchange(
  socket: string,
  path: string,
  body: string,
  limitMs: number,
): ThickResponse | NoResponse {
  using stream = UnixStream.connect(socket);
  if (stream === undefined) return "unreachable";
  stream.setLimit(limitMs);
  // With HTTP/1.0, the body ends with the connection.
  const lines = [
    `POST ${path} HTTP/1.0`,
    "Host: dummy",
    "Content-Type: application/json",
    `Content-Length: ${new TextEncoder().encode(body).length}`,
    "",
    body,
  ];
  if (!stream.send(new TextEncoder().encode(lines.join("\r\n")))) return "lost";
  return parseResponse(receiveAll(stream)) ?? "lost";
}

/** Bytes to receive at a time. */
const BUFFER_BYTES = 16 * 1024;

function receiveAll(stream: UnixStream): string {
  const buffer = new Uint8Array(BUFFER_BYTES);
  const decoder = new TextDecoder();
  let text = "";
  for (let length; (length = stream.receive(buffer)) > 0;) {
    text += decoder.decode(buffer.subarray(0, length), { stream: true });
  }
  return text + decoder.decode();
}

const STATUS_LINE = /^HTTP\/1\.[01] (\d{3})\b/;
const LENGTH = /\r\ncontent-length: *(\d+)/i;

/** @returns Undefined if the response is incomplete */
function parseResponse(text: string): ThickResponse | undefined {
  const end = text.indexOf("\r\n\r\n");
  const [, status] = STATUS_LINE.exec(text) ?? [];
  if (end < 0 || status === undefined) return undefined;
  const [, length] = LENGTH.exec(text.slice(0, end)) ?? [];
  const body = text.slice(end + 4);
  const received = new TextEncoder().encode(body).length;
  if (length !== undefined && received < Number(length)) return undefined;
  return { status: Number(status), body };
}

/** Makes the daemon run a call. */
export function sendCall(
  socket: string,
  { env, stdin }: Pick<ShimmedCall, "env" | "stdin">,
): ThickResponse | NoResponse {
  const request = {
    env,
    config: stdin.toBase64(),
    // This identifies the same build to this project's daemon; the Go version ignores
    // it.
    build: buildIdentity,
    exe: findFileId("/proc/self/exe"),
  };
  return exchange(socket, "/cni", JSON.stringify(request), CALL_MS);
}

/**
 * Makes the Go version's daemon run a call of multus. A DEL that the daemon does not
 * run is run here, because it needs only files on disk.
 */
export async function askThick(
  socket: string,
  { env, stdin }: ReceivedCall,
  cniVersion: string,
): Promise<PrintedAnswer | "lost" | undefined> {
  const response = sendCall(socket, { env, stdin });
  if (response === "unreachable") return undefined;
  if (response === "lost") return "lost";
  if (env["CNI_COMMAND"] === "DEL" && response.status !== 200) return undefined;
  return await toAnswer({ env, cniVersion }, response);
}

/** Converts the daemon's response to a plugin's output. */
export async function toAnswer(
  { env, cniVersion }: Pick<ShimmedCall, "env" | "cniVersion">,
  { status, body }: ThickResponse,
): Promise<PrintedAnswer> {
  try {
    if (status !== 200) throw parseError(status, body);
    const isAdd = env["CNI_COMMAND"] === "ADD";
    const stdout = isAdd ? await formatBody(body, cniVersion) : "";
    return { stdout, exitCode: 0 };
  } catch (error) {
    return formatFailure(error, versionOfErrors(cniVersion));
  }
}

/** Returns the version of an error document. */
export function versionOfErrors(cniVersion: string): string {
  return isSpecVersion(cniVersion) ? cniVersion : CURRENT_VERSION;
}

/** Returns the daemon's error or, from the Go version's daemon, its text. */
function parseError(status: number, body: string): CniError {
  return parseDaemonError(body) ?? new CniError(
    ErrorCode.Internal,
    `CNI request failed with status ${status}: '${body.trimEnd()}'`,
  );
}

/** From this version on, results differ only in their version. */
const SAME_SHAPE_SINCE = "1.0.0";

async function formatBody(body: string, cniVersion: string): Promise<string> {
  const { Result: result } = parseObject(body) ?? {};
  if (typeof result !== "object" || result === null) {
    throw new CniError(
      ErrorCode.DecodingFailure,
      "the multus daemon returned no result",
      { details: body },
    );
  }
  return await formatAdded(result, cniVersion);
}

/** Formats a result of the newest version in the version of the call. */
export async function formatAdded(
  result: object,
  cniVersion: string,
): Promise<string> {
  if (isSpecVersion(cniVersion) && isAtLeast(cniVersion, SAME_SHAPE_SINCE)) {
    return JSON.stringify({ ...result, cniVersion }, null, 4);
  }
  const { decodeResult } = await import("../../../cni/result/decoding.ts");
  const { formatResult } = await import("../../../cni/result/encoding.ts");
  return formatResult(decodeResult(result), cniVersion);
}
