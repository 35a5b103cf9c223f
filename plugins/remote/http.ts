/**
 * An HTTP request over a unix socket, with a deadline and a limit for the response's
 * size. It does not block other calls of this process.
 *
 * Source: RFC 9112.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { pause, waitUntil } from "../../base/deadline.ts";
import { CniError, describeError } from "../../base/error.ts";
import { checkChange } from "../../ffi/change_check.ts";
import { type Bytes, concat } from "../../net/bytes.ts";
import {
  AnswerLost,
  BadAnswer,
  DaemonAway,
  DaemonBusy,
  OWN_CODE,
} from "./daemon_errors.ts";

/** The longest response, in bytes. */
const MAX_ANSWER = 4 * 1024 * 1024;
/** The longest response head, in bytes. */
const MAX_HEAD = 64 * 1024;

/** The daemon, and time limits. */
export interface Target {
  /** Path of its socket. */
  readonly socket: string;
  /** Aborts the call. */
  readonly signal: AbortSignal;
  /** How long to wait for a daemon that does not listen, in ms. */
  readonly readyMs: number;
  /** Time between two attempts to connect, in ms. */
  readonly pollMs: number;
}

/** A request. */
export interface HttpRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly host: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The JSON body; "" for none. */
  readonly body: string;
}

/** A response. */
export interface HttpAnswer {
  readonly status: number;
  readonly body: string;
}

/**
 * Sends a request and receives the response. Only the connection is retried, because
 * the daemon has not received anything before.
 *
 * @throws {DaemonAway} If no process listens in time
 * @throws {DaemonBusy} If the daemon accepts no connection in time
 * @throws {AnswerLost} If the daemon closes the connection too early, or the deadline
 * passes
 * @throws {BadAnswer} If the response is too long, or is not HTTP
 * @throws {CniError} 100 if a different user could have created the socket
 */
export async function exchange(
  target: Target,
  request: HttpRequest,
): Promise<HttpAnswer> {
  const { signal } = target;
  using connection = await connect(target);
  const bytes = encodeRequest(request);
  if (request.method !== "GET") checkChange();
  try {
    // If this fails, the daemon might have responded before it read the whole
    // request.
    sendAll(connection, bytes).catch(() => {});
    const received = await waitUntil(receive(connection), signal);
    if (received === undefined) {
      throw new AnswerLost("it did not answer in time");
    }
    return decodeAnswer(received);
  } catch (error) {
    if (error instanceof AnswerLost || error instanceof BadAnswer) throw error;
    throw new AnswerLost("the daemon closed the connection", { cause: error });
  }
}

async function connect(target: Target): Promise<Deno.UnixConn> {
  const { socket: path, signal, readyMs, pollMs } = target;
  const endMs = performance.now() + readyMs;
  for (;;) {
    try {
      checkOwner(path);
      const connecting = Deno.connect({ transport: "unix", path });
      const connection = await waitUntil(connecting, signal);
      if (connection !== undefined) return connection;
      connecting.then((late) => late.close()).catch(() => {});
      throw new Error("the time limit expired");
    } catch (error) {
      if (error instanceof CniError) throw error;
      // A full backlog means that a daemon listens: it might accept the connection a
      // moment later.
      const isFull = error instanceof Deno.errors.WouldBlock;
      const isLast = !isFull && performance.now() + pollMs > endMs;
      if (isLast || signal.aborted) throw toConnectError(error);
      await pause(pollMs, signal);
    }
  }
}

/**
 * Converts an error of connect(2). Any other error does not show that the daemon is
 * absent.
 */
function toConnectError(cause: unknown): DaemonAway | DaemonBusy {
  if (cause instanceof Deno.errors.NotFound) {
    return new DaemonAway("the socket does not exist", { cause });
  }
  return cause instanceof Deno.errors.ConnectionRefused
    ? new DaemonAway("no process listens", { cause })
    : new DaemonBusy(describeError(cause), { cause });
}

/**
 * Checks that only root or this user can have created a socket.
 *
 * @throws {CniError} 100 if a different user can
 * @throws {Deno.errors.NotFound} If it does not exist
 */
function checkOwner(path: string): void {
  const info = Deno.statSync(path);
  if (info.isSocket === false) throw refuseSocket(path, "is not a socket");
  const owners = [0, Deno.uid()];
  if (!owners.includes(info.uid)) {
    throw refuseSocket(path, `belongs to user ${info.uid}, not to root`);
  }
  const directory = Deno.statSync(dirname(Deno.realPathSync(path)));
  const mode = directory.mode ?? 0;
  const isOpen = (mode & 0o022) !== 0 && (mode & 0o1000) === 0;
  if (!owners.includes(directory.uid) || isOpen) {
    throw refuseSocket(path, "is in a directory that other users can change");
  }
}

function refuseSocket(path: string, why: string): CniError {
  return new CniError(OWN_CODE, `The daemon's socket "${path}" ${why}`);
}

function encodeRequest(
  { method, path, host, headers, body }: HttpRequest,
): Bytes {
  const payload = new TextEncoder().encode(body);
  const lines = [
    `${method} ${path} HTTP/1.1`,
    `Host: ${host}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ...body === "" ? [] : ["Content-Type: application/json"],
    `Content-Length: ${payload.length}`,
    "Connection: close",
    "\r\n",
  ];
  return concat([new TextEncoder().encode(lines.join("\r\n")), payload]);
}

async function sendAll(connection: Deno.Conn, bytes: Bytes): Promise<void> {
  for (let rest = bytes; rest.length > 0;) {
    rest = rest.subarray(await connection.write(rest));
  }
}

/** Receives until the daemon closes the connection, or the response is complete. */
async function receive(connection: Deno.Conn): Promise<Bytes> {
  const buffer = new Uint8Array(16 * 1024);
  const chunks: Bytes[] = [];
  let size = 0, whole: number | undefined, hasHead = false;
  for (;;) {
    const length = await connection.read(buffer);
    if (length === null) break;
    chunks.push(buffer.slice(0, length));
    size += length;
    if (size > MAX_ANSWER + MAX_HEAD) throw tooLong();
    if (!hasHead) {
      const start = concat(chunks);
      const end = latin1.decode(start).indexOf(END_OF_HEAD);
      hasHead = end >= 0;
      if (!hasHead && size > MAX_HEAD) throw notHttp();
      const length = hasHead ? lengthIn(start.subarray(0, end)) : undefined;
      if (length !== undefined) whole = end + END_OF_HEAD.length + length;
    }
    if (whole !== undefined && size >= whole) break;
  }
  return concat(chunks);
}

function tooLong(): BadAnswer {
  return new BadAnswer(`the answer is longer than ${MAX_ANSWER} bytes`);
}

function notHttp(): BadAnswer {
  return new BadAnswer("the answer is not HTTP");
}

const latin1 = new TextDecoder("latin1");
const END_OF_HEAD = "\r\n\r\n";

/** Returns the body's length from the head. */
function lengthIn(head: Bytes): number | undefined {
  const [, digits] = /\r\ncontent-length: *(\d+) *(?:\r\n|$)/i
    .exec(latin1.decode(head)) ?? [];
  if (digits === undefined) return undefined;
  if (Number(digits) > MAX_ANSWER) throw tooLong();
  return Number(digits);
}

/**
 * Decodes all bytes that a daemon sent until it closed the connection.
 *
 * @throws {AnswerLost} If the response is incomplete
 * @throws {BadAnswer} If the response is too long, or is not HTTP
 */
export function decodeAnswer(bytes: Bytes): HttpAnswer {
  if (bytes.length === 0) {
    throw new AnswerLost("the daemon closed the connection without an answer");
  }
  const text = latin1.decode(bytes.subarray(0, MAX_HEAD));
  const end = text.indexOf(END_OF_HEAD);
  const [, status] = /^HTTP\/1\.[01] (\d{3})(?: |\r\n)/.exec(text) ?? [];
  if (end < 0 && /^(?:H|HT|HTT|HTTP|HTTP\/.*)$/s.test(text)) throw cutOff();
  if (end < 0 || status === undefined) throw notHttp();
  const rest = bytes.subarray(end + END_OF_HEAD.length);
  const isChunked = /\r\ntransfer-encoding: *chunked/i
    .test(text.slice(0, end));
  const body = isChunked
    ? joinChunks(rest)
    : cutTo(rest, lengthIn(bytes.subarray(0, end)));
  if (body.length > MAX_ANSWER) throw tooLong();
  try {
    const decoder = new TextDecoder("utf-8", { fatal: true });
    return { status: Number(status), body: decoder.decode(body) };
  } catch {
    throw new BadAnswer("the answer is not UTF-8");
  }
}

function cutOff(): AnswerLost {
  return new AnswerLost(
    "the daemon closed the connection in the middle of its answer",
  );
}

function cutTo(bytes: Bytes, length: number | undefined): Bytes {
  if (length === undefined) return bytes;
  if (bytes.length < length) throw cutOff();
  return bytes.subarray(0, length);
}

/** Source: RFC 9112, 7.1. */
function joinChunks(bytes: Bytes): Bytes {
  const chunks: Bytes[] = [];
  for (let rest = bytes;;) {
    const line = latin1.decode(rest.subarray(0, 1024));
    const [head, digits] = /^([0-9a-f]{1,8})(?:;[^\r\n]*)?\r\n/i.exec(line)
      ?.slice(0, 2) ?? [];
    if (head === undefined || digits === undefined) throw cutOff();
    const length = parseInt(digits, 16);
    if (length === 0) return concat(chunks);
    rest = rest.subarray(head.length);
    chunks.push(cutTo(rest, length));
    rest = rest.subarray(length + 2);
  }
}
