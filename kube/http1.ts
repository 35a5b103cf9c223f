/**
 * Encodes requests and decodes answers of HTTP/1.1.
 *
 * Source: RFC 9112.
 *
 * @module
 */

import type { Header } from "./access.ts";
import { LineReader, malformed, type ReadBytes } from "./http1_lines.ts";

/** A request to encode. */
export interface Http1Request {
  /** A method whose answers may have a body: neither HEAD nor CONNECT. */
  readonly method: string;
  /** Value of the `Host` header. */
  readonly host: string;
  /** Includes the query. */
  readonly path: string;
  /** A name may occur more than once. */
  readonly headers: readonly Header[];
  readonly body?: string | undefined;
}

/** The head of an answer. */
export interface AnswerHead {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  /** Whether there is a body, which may be empty. */
  readonly hasBody: boolean;
  /** Whether the connection can carry another request. */
  readonly staysOpen: boolean;
}

/** Answers to other methods are framed differently. */
const METHODS: readonly string[] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/**
 * Encodes a whole request as one array.
 *
 * @throws {TypeError} If the bytes would be a different request, or more than
 *   one
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

/** Default size limit of an answer's head, in bytes. */
const MAX_HEAD_BYTES = 64 * 2 ** 10;

/** How the end of a body is determined. */
type Framing = "length" | "chunks" | "until the end";

/** Reads the answers on a connection, one after the other. */
export class AnswerReader {
  readonly #lines: LineReader;
  readonly #maxHeadBytes: number;
  #framing: Framing = "length";
  #left = 0;
  #isFirstChunk = true;

  /**
   * Creates a reader without reading.
   *
   * @param maxHeadBytes Size limit of a head; 64 KiB by default
   */
  constructor(read: ReadBytes, maxHeadBytes: number = MAX_HEAD_BYTES) {
    this.#lines = new LineReader(read);
    this.#maxHeadBytes = maxHeadBytes;
  }

  /**
   * Whether received bytes are left. After an answer they belong to no request,
   * and would be mistaken for the next answer.
   */
  get hasUnread(): boolean {
    return this.#lines.hasUnread;
  }

  /**
   * Reads the head of the next answer, and skips interim answers (1xx).
   *
   * @throws {Error} If there is no answer, or it is malformed
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
    // A server may send an announced body even if the status forbids one.
    const isClear = isBare === (framing === "until the end");
    return {
      status,
      headers: { get: (name) => headers.get(name.toLowerCase()) ?? null },
      hasBody: this.#framing !== "length" || this.#left > 0,
      staysOpen: isHttp11 && !isLast && isClear,
    };
  }

  /** Repeated names and continuation lines extend the value. */
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
   * Reads the next piece of the body.
   *
   * @returns A piece that is valid until the next call; undefined at the end
   * @throws {Error} If the body is truncated
   */
  async readPiece(): Promise<Uint8Array | undefined> {
    if (this.#framing === "until the end") return await this.#lines.readAny();
    if (this.#left === 0 && this.#framing === "chunks") await this.#nextChunk();
    if (this.#left === 0) return undefined;
    const piece = await this.#lines.readSome(this.#left);
    this.#left -= piece.length;
    return piece;
  }

  /** Begins the next chunk; nothing is left after the last one. */
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
    // Allows some overhead. Source: Go net/http/internal/chunked.go `excess`.
    this.#lines.allow(16 + 2 * this.#left, this.#maxHeadBytes);
    if (this.#left > 0) return;
    await this.#readHeaders();
    this.#framing = "length";
  }
}

/** A name, or the blanks of a continuation line. Source: RFC 9112 section 5. */
const HEADER_START = /^([\w!#$%&'*+.^`|~-]+):|^[ \t]+/;

/**
 * An answer with two framings is refused: another program might read it as two
 * answers.
 */
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

/** Takes linear time, unlike a regular expression for trailing blanks. */
function trimBlanks(text: string): string {
  const isBlank = (at: number): boolean =>
    text[at] === " " || text[at] === "\t";
  let start = 0, end = text.length;
  while (isBlank(start)) start++;
  while (end > start && isBlank(end - 1)) end--;
  return text.slice(start, end);
}
