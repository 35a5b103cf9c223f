/**
 * One HTTP/1.1 request over a unix socket, with the whole response in memory.
 *
 * The first `fetch` of a process takes 12 ms, which is most of what the daemon
 * saves. This code only accepts responses with a content length, as the daemon
 * sends them; any other response is an error.
 *
 * @module
 */

import {
  AnswerReader,
  encodeHttpRequest,
  type Http1Request,
} from "../../../kube/http1.ts";
import { malformed } from "../../../kube/http1_lines.ts";

/** A request. */
export type UnixRequest = Omit<Http1Request, "host">;

/** A response. */
export interface UnixAnswer {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  readonly text: string;
}

/** Size limit of a response, in bytes. */
const MAX_BYTES = 16 * 2 ** 20;
/** Size limit of its head, in bytes. */
const MAX_HEAD_BYTES = 16 * 2 ** 10;
/** Size of a connection's read buffer, in bytes. */
const BUFFER_BYTES = 64 * 2 ** 10;

/**
 * Sends a request on a new connection, and reads the response.
 *
 * @param socketPath The server's socket
 * @param signal Aborts the request
 * @throws {Error} If the connection fails, or the response is incomplete
 */
export async function exchangeOverUnix(
  socketPath: string,
  request: UnixRequest,
  signal: AbortSignal,
): Promise<UnixAnswer> {
  signal.throwIfAborted();
  using connection = await Deno.connect({
    transport: "unix",
    path: socketPath,
  });
  // Pending reads and writes then fail.
  const close = (): void => connection[Symbol.dispose]();
  signal.addEventListener("abort", close);
  try {
    signal.throwIfAborted();
    await writeAll(connection, encodeRequest(request));
    return await readAnswer(connection);
  } finally {
    signal.removeEventListener("abort", close);
  }
}

function encodeRequest(request: UnixRequest): Uint8Array {
  return encodeHttpRequest({
    ...request,
    host: "multus",
    headers: [["Connection", "close"], ...request.headers],
  });
}

async function writeAll(
  connection: Deno.UnixConn,
  bytes: Uint8Array,
): Promise<void> {
  for (let written = 0; written < bytes.length;) {
    written += await connection.write(bytes.subarray(written));
  }
}

async function readAnswer(connection: Deno.UnixConn): Promise<UnixAnswer> {
  const buffer = new Uint8Array(BUFFER_BYTES);
  const reader = new AnswerReader(async () => {
    const count = await connection.read(buffer);
    if (count === null) throw malformed("it ends before its end");
    return buffer.subarray(0, count);
  }, MAX_HEAD_BYTES);
  const { status, headers } = await reader.readHead();
  const length = headers.get("content-length");
  if (length === null || Number(length) > MAX_BYTES) {
    throw malformed(`its length is "${length ?? ""}"`);
  }
  const text = await readText(reader);
  if (reader.hasUnread) throw malformed("it is longer than it says");
  return { status, headers, text };
}

async function readText(reader: AnswerReader): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for (let piece; (piece = await reader.readPiece()) !== undefined;) {
    text += decoder.decode(piece, { stream: true });
  }
  return text + decoder.decode();
}
