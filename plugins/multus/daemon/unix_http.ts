/**
 * One exchange of HTTP/1.1 over a unix socket, the whole answer in memory.
 *
 * `fetch` can do this too, but the first one of a process takes 12 ms to
 * become ready, which is most of what the daemon saves. So this knows just the
 * answers that the daemon gives: any other one is an error.
 *
 * Source: RFC 9112.
 *
 * @module
 */

import type { Header } from "../../../kube/access.ts";

/** A request. */
export interface UnixRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: readonly Header[];
  readonly body?: string | undefined;
}

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

function encodeRequest(
  { method, path, headers, body = "" }: UnixRequest,
): Uint8Array {
  const encoder = new TextEncoder();
  const content = encoder.encode(body);
  const lines = [
    `${method} ${path} HTTP/1.1`,
    "host: multus",
    "connection: close",
    `content-length: ${content.length}`,
    ...headers.map(([name, value]) => `${name}: ${value}`),
  ];
  const head = encoder.encode(`${lines.join("\r\n")}\r\n\r\n`);
  const bytes = new Uint8Array(head.length + content.length);
  bytes.set(head);
  bytes.set(content, head.length);
  return bytes;
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
  let bytes = await readMore(connection, new Uint8Array());
  let bodyAt = findBody(bytes);
  while (bodyAt === undefined) {
    if (bytes.length > MAX_HEAD_BYTES) throw malformed("its head has no end");
    bytes = await readMore(connection, bytes);
    bodyAt = findBody(bytes);
  }
  const head = parseHead(bytes.subarray(0, bodyAt));
  const end = bodyAt + head.length;
  while (bytes.length < end) bytes = await readMore(connection, bytes);
  if (bytes.length > end) throw malformed("it is longer than it says");
  const text = new TextDecoder().decode(bytes.subarray(bodyAt));
  return { ...head, text };
}

const CHUNK_BYTES = 64 * 2 ** 10;

/** Reads what there is, and puts it behind what was there. */
async function readMore(
  connection: Deno.UnixConn,
  bytes: Uint8Array,
): Promise<Uint8Array> {
  const chunk = new Uint8Array(Math.max(CHUNK_BYTES, bytes.length));
  const count = await connection.read(chunk);
  if (count === null) throw malformed("it ends before its end");
  if (bytes.length === 0) return chunk.subarray(0, count);
  const all = new Uint8Array(bytes.length + count);
  all.set(bytes);
  all.set(chunk.subarray(0, count), bytes.length);
  return all;
}

const CR = 0x0d, LF = 0x0a;

/** Returns where the body begins: after an empty line. */
function findBody(bytes: Uint8Array): number | undefined {
  for (let at = bytes.indexOf(CR); at !== -1; at = bytes.indexOf(CR, at + 1)) {
    const isEnd = bytes[at + 1] === LF && bytes[at + 2] === CR &&
      bytes[at + 3] === LF;
    if (isEnd) return at + 4;
  }
  return undefined;
}

function parseHead(
  bytes: Uint8Array,
): Omit<UnixAnswer, "text"> & { readonly length: number } {
  const [first = "", ...lines] = new TextDecoder().decode(bytes).split("\r\n");
  const [, status] = /^HTTP\/1\.1 (\d{3})(?: |$)/.exec(first) ?? [];
  if (status === undefined) throw malformed("it is no HTTP/1.1");
  const headers = new Map<string, string>();
  for (const line of lines) {
    const [, name = "", value = ""] = /^([^:]+):[ \t]*(.*)$/.exec(line) ?? [];
    headers.set(name.toLowerCase(), value);
  }
  const length = headers.get("content-length") ?? "";
  if (!/^\d{1,9}$/.test(length) || Number(length) > MAX_BYTES) {
    throw malformed(`its length is "${length}"`);
  }
  return {
    status: Number(status),
    headers: { get: (name) => headers.get(name.toLowerCase()) ?? null },
    length: Number(length),
  };
}

function malformed(why: string): Error {
  return new Error(`Cannot read the answer: ${why}`);
}
