/**
 * HTTP/1.1 as bytes: requests that are sent, answers that are read.
 *
 * Source: RFC 9112.
 *
 * @module
 */

import type { Header } from "./access.ts";
import { LineReader, malformed, type ReadBytes } from "./http1_lines.ts";

/** A request. */
export interface Http1Request {
  /** One to which an answer may have a body: neither HEAD nor CONNECT. */
  readonly method: string;
  /** As the `Host` header has it. */
  readonly host: string;
  /** With the query. */
  readonly path: string;
  /** A name may come more than once. */
  readonly headers: readonly Header[];
  readonly body?: string | undefined;
}

/** What comes before the body of an answer. */
export interface AnswerHead {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  /** Whether there is a body, if perhaps an empty one. */
  readonly hasBody: boolean;
  /** Whether there can be another request on the connection. */
  readonly staysOpen: boolean;
}

/** Others are answered in other ways. */
const METHODS: readonly string[] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/**
 * Encodes a request, all of it in one piece.
 *
 * @throws {TypeError} If it would be another one, or more than one
 */
export function encodeHttpRequest(
  { method, host, path, headers, body }: Http1Request,
): Uint8Array {
  if (!METHODS.includes(method) || !/^\/[^\0-\x20\x7f]*$/.test(path)) {
    throw new TypeError(`Cannot send ${JSON.stringify(`${method} ${path}`)}`);
  }
  const encoder = new TextEncoder();
  const content = encoder.encode(body ?? "");
  const all: Header[] = [["Host", host], ...headers];
  if (body !== undefined || method !== "GET") {
    all.push(["Content-Length", String(content.length)]);
  }
  const lines = [`${method} ${path} HTTP/1.1`, ...all.map(format)];
  const head = encoder.encode(`${lines.join("\r\n")}\r\n\r\n`);
  const bytes = new Uint8Array(head.length + content.length);
  bytes.set(head);
  bytes.set(content, head.length);
  return bytes;
}

function format([name, value]: Header): string {
  const line = `${name}: ${value}`;
  if (/^[\w-]+: [^\0\r\n]*$/.test(line) && !name.includes(":")) return line;
  throw new TypeError(`Cannot send header ${JSON.stringify(name)}`);
}

/** The most that the head of an answer may have, in bytes, unless told. */
const MAX_HEAD_BYTES = 64 * 2 ** 10;

/** How the end of a body is known; if at all, by how many bytes are left. */
type Framing = "length" | "chunks" | "until the end";

/** Reads the answers on a connection, one after the other. */
export class AnswerReader {
  readonly #lines: LineReader;
  readonly #maxHeadBytes: number;
  #framing: Framing = "length";
  #left = 0;
  #isFirstChunk = true;

  /**
   * Nothing is read yet.
   *
   * @param maxHeadBytes The most that a head may have; 64 KiB unless told
   */
  constructor(read: ReadBytes, maxHeadBytes: number = MAX_HEAD_BYTES) {
    this.#lines = new LineReader(read);
    this.#maxHeadBytes = maxHeadBytes;
  }

  /**
   * Whether bytes have come that are not read. After an answer they are part of
   * nothing that was asked for, and would be taken for the next one.
   */
  get hasUnread(): boolean {
    return this.#lines.hasUnread;
  }

  /**
   * Reads the head of the next answer, passing over those that say that it will
   * come.
   *
   * @throws {Error} If there is none, or what comes is none
   */
  async readHead(): Promise<AnswerHead> {
    this.#lines.begin("its head", this.#maxHeadBytes);
    for (;;) {
      const first = await this.#lines.readLine();
      const [, minor, text] = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: |$)/
        .exec(first) ?? [];
      if (text === undefined) throw malformed("it is no HTTP/1.1");
      const headers = await this.#readHeaders();
      const status = Number(text);
      if (status === 101) throw malformed("it goes on in another protocol");
      if (status >= 200) return this.#begin(status, headers, minor === "1");
    }
  }

  #begin(
    status: number,
    headers: ReadonlyMap<string, string>,
    isHttp11: boolean,
  ): AnswerHead {
    const framing = findFraming(headers, isHttp11);
    const isBare = status === 204 || status === 304;
    this.#framing = isBare ? "length" : framing;
    this.#left = framing === "length" && !isBare
      ? parseLength(headers.get("content-length"))
      : 0;
    this.#isFirstChunk = true;
    this.#lines.begin("the head of a chunk", this.#maxHeadBytes);
    const isLast = headers.get("connection")?.toLowerCase().includes("close");
    // A body that is announced may come even where there can be none.
    const isClear = isBare === (framing === "until the end");
    return {
      status,
      headers: { get: (name) => headers.get(name.toLowerCase()) ?? null },
      hasBody: this.#framing !== "length" || this.#left > 0,
      staysOpen: isHttp11 && !isLast && isClear,
    };
  }

  /** A name that comes again adds to the value, and so does a line that goes on. */
  async #readHeaders(): Promise<Map<string, string>> {
    const headers = new Map<string, string>();
    let key = "";
    for (let line; (line = await this.#lines.readLine()) !== "";) {
      const [start = "", name] = HEADER_START.exec(line) ?? [];
      key = name?.toLowerCase() ?? (start && key);
      if (key === "") throw malformed("a header has no name");
      const value = trimBlanks(line.slice(start.length));
      const before = headers.get(key);
      const glue = name === undefined ? before && " " : ", ";
      headers.set(key, before === undefined ? value : before + glue + value);
    }
    return headers;
  }

  /**
   * Reads on in the body.
   *
   * @returns What has come, good until the next call; undefined at the end
   * @throws {Error} If it ends before its end
   */
  async readPiece(): Promise<Uint8Array | undefined> {
    if (this.#framing === "until the end") return await this.#lines.readAny();
    if (this.#left === 0 && this.#framing === "chunks") await this.#nextChunk();
    if (this.#left === 0) return undefined;
    const piece = await this.#lines.readSome(this.#left);
    this.#left -= piece.length;
    return piece;
  }

  /** Leaves nothing if it was the last one. */
  async #nextChunk(): Promise<void> {
    const isBetween = !this.#isFirstChunk &&
      await this.#lines.readLine() !== "";
    if (isBetween) throw malformed("a chunk is longer than it says");
    this.#isFirstChunk = false;
    const [, size] = /^0*([\da-f]{1,8})[ \t]*(?:;|$)/i.exec(
      await this.#lines.readLine(),
    ) ?? [];
    if (size === undefined) throw malformed("a chunk has no size");
    this.#left = parseInt(size, 16);
    // Some more than content. Source: Go net/http/internal/chunked.go `excess`.
    this.#lines.allow(16 + 2 * this.#left, this.#maxHeadBytes);
    if (this.#left > 0) return;
    await this.#readHeaders();
    this.#framing = "length";
  }
}

/** A name, or the blanks of a line that goes on. Source: RFC 9112 section 5. */
const HEADER_START = /^([\w!#$%&'*+.^`|~-]+):|^[ \t]+/;

/** What is framed in two ways may be two answers to somebody else. */
function findFraming(
  headers: ReadonlyMap<string, string>,
  isHttp11: boolean,
): Framing {
  const encoding = headers.get("transfer-encoding");
  if (encoding === undefined) {
    return headers.has("content-length") ? "length" : "until the end";
  }
  if (encoding.toLowerCase() !== "chunked" || !isHttp11) {
    throw malformed(`its encoding is "${encoding}"`);
  }
  if (!headers.has("content-length")) return "chunks";
  throw malformed("it has both chunks and a length");
}

function parseLength(text = ""): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw malformed(`its length is "${text}"`);
}

/** Time is linear, which it is not with a pattern for the end. */
function trimBlanks(text: string): string {
  const isBlank = (at: number): boolean =>
    text[at] === " " || text[at] === "\t";
  let start = 0, end = text.length;
  while (isBlank(start)) start++;
  while (end > start && isBlank(end - 1)) end--;
  return text.slice(start, end);
}
