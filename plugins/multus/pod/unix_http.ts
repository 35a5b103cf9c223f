/**
 * One exchange of HTTP/1.1 over a unix socket, the whole answer in memory.
 *
 * `fetch` can do this too, but the first one of a process takes 12 ms to
 * become ready, which is most of what the daemon saves. So this takes just the
 * answers that the daemon gives, which say how long they are: any other one is
 * an error.
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

/** An answer. */
export interface UnixAnswer {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  readonly text: string;
}

/** The most that is read of an answer, in bytes. */
const MAX_BYTES = 16 * 2 ** 20;
/** The most that its head may have. */
const MAX_HEAD_BYTES = 16 * 2 ** 10;
/** Memory that a connection reads into, in bytes. */
const BUFFER_BYTES = 64 * 2 ** 10;

/**
 * Sends a request on a connection of its own, and reads the answer.
 *
 * @param socketPath Where somebody listens
 * @param signal Gives it up
 * @throws {Error} If nobody listens, or what comes is no whole answer
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
  // What is being read or written then fails.
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
