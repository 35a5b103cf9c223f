/**
 * HTTP/1.1 as bytes: requests that are sent, answers that are read.
 *
 * Source: RFC 9112.
 *
 * @module
 */

import type { Header } from "./access.ts";
import type { HttpRequest } from "./transport.ts";

/** What comes before the body of an answer. */
export interface AnswerHead {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  /** Whether there is a body, if perhaps an empty one. */
  readonly hasBody: boolean;
  /** Whether there can be another request on the connection. */
  readonly staysOpen: boolean;
}

/** Reads what has come; undefined at the end. A piece is good until the next one. */
export type ReadBytes = () => Promise<Uint8Array | undefined>;

/**
 * Encodes a request, all of it in one piece.
 *
 * @throws {TypeError} If a header would be more than one
 */
export function encodeHttpRequest(
  { method, url, headers, body }: HttpRequest,
): Uint8Array {
  const { host, pathname, search } = new URL(url);
  const encoder = new TextEncoder();
  const content = encoder.encode(body ?? "");
  const all: Header[] = [["Host", host], ...headers];
  if (body !== undefined || method !== "GET") {
    all.push(["Content-Length", String(content.length)]);
  }
  const lines = [`${method} ${pathname}${search} HTTP/1.1`, ...all.map(format)];
  const head = encoder.encode(`${lines.join("\r\n")}\r\n\r\n`);
  const bytes = new Uint8Array(head.length + content.length);
  bytes.set(head);
  bytes.set(content, head.length);
  return bytes;
}

function format([name, value]: Header): string {
  if (!/^[\w-]+$/.test(name) || /[\0\r\n]/.test(value)) {
    throw new TypeError(`Cannot send header ${JSON.stringify(name)}`);
  }
  return `${name}: ${value}`;
}

/** The most that a line may have, and all headers together, in characters. */
const MAX_HEAD_LENGTH = 64 * 2 ** 10;

/** How the end of a body is known; if at all, by how many bytes are left. */
type Framing = "length" | "chunks" | "until the end";

const LF = 0x0a;

/** Reads the answers on a connection, one after the other. */
export class AnswerReader {
  readonly #read: ReadBytes;
  #unread = new Uint8Array();
  #framing: Framing = "length";
  #left = 0;
  #isFirstChunk = true;

  /** Nothing is read yet. */
  constructor(read: ReadBytes) {
    this.#read = read;
  }

  /**
   * Reads the head of the next answer, passing over those that say that it will
   * come.
   *
   * @throws {Error} If there is none, or what comes is none
   */
  async readHead(): Promise<AnswerHead> {
    for (;;) {
      const first = await this.#readLine();
      const [, minor, text] = /^HTTP\/1\.([01]) (\d{3})(?: |$)/.exec(first) ??
        [];
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
    isPersistent: boolean,
  ): AnswerHead {
    const hasBody = status !== 204 && status !== 304;
    this.#framing = hasBody ? findFraming(headers) : "length";
    this.#left = hasBody && this.#framing === "length"
      ? parseLength(headers.get("content-length"))
      : 0;
    this.#isFirstChunk = true;
    const isLast = /\bclose\b/i.test(headers.get("connection") ?? "");
    return {
      status,
      headers: { get: (name) => headers.get(name.toLowerCase()) ?? null },
      hasBody: hasBody && (this.#framing !== "length" || this.#left > 0),
      staysOpen: isPersistent && !isLast && this.#framing !== "until the end",
    };
  }

  async #readHeaders(): Promise<Map<string, string>> {
    const headers = new Map<string, string>();
    let length = 0;
    for (;;) {
      const line = await this.#readLine();
      if (line === "") return headers;
      length += line.length;
      if (length > MAX_HEAD_LENGTH) throw malformed("its head has no end");
      const [, name = "", value = ""] = /^([^\s:]+):[ \t]*(.*?)[ \t]*$/
        .exec(line) ?? [];
      if (name === "") throw malformed("a header has no name");
      const key = name.toLowerCase();
      const before = headers.get(key);
      headers.set(key, before === undefined ? value : `${before}, ${value}`);
    }
  }

  /**
   * Reads on in the body.
   *
   * @returns What has come, good until the next call; undefined at the end
   * @throws {Error} If it ends before its end
   */
  async readPiece(): Promise<Uint8Array | undefined> {
    if (this.#framing === "until the end") {
      return this.#unread.length > 0
        ? this.#take(Infinity)
        : await this.#read();
    }
    if (this.#left === 0 && this.#framing === "chunks") await this.#nextChunk();
    if (this.#left === 0) return undefined;
    if (this.#unread.length === 0) await this.#readMore();
    const piece = this.#take(this.#left);
    this.#left -= piece.length;
    return piece;
  }

  /** Leaves nothing if it was the last one. */
  async #nextChunk(): Promise<void> {
    const isBetween = !this.#isFirstChunk && await this.#readLine() !== "";
    if (isBetween) throw malformed("a chunk is longer than it says");
    this.#isFirstChunk = false;
    const [, size] = /^([\da-f]{1,8})[ \t]*(?:;|$)/i.exec(
      await this.#readLine(),
    ) ?? [];
    if (size === undefined) throw malformed("a chunk has no size");
    this.#left = parseInt(size, 16);
    if (this.#left > 0) return;
    await this.#readHeaders();
    this.#framing = "length";
  }

  async #readLine(): Promise<string> {
    for (let line = "";;) {
      if (this.#unread.length === 0) await this.#readMore();
      const end = this.#unread.indexOf(LF);
      const piece = this.#take(end === -1 ? Infinity : end + 1);
      line += new TextDecoder().decode(piece);
      if (line.length > MAX_HEAD_LENGTH) throw malformed("a line has no end");
      if (end !== -1) return line.replace(/\r?\n$/, "");
    }
  }

  #take(count: number): Uint8Array {
    const piece = this.#unread.subarray(
      0,
      Math.min(count, this.#unread.length),
    );
    this.#unread = this.#unread.subarray(piece.length);
    return piece;
  }

  async #readMore(): Promise<void> {
    const bytes = await this.#read();
    if (bytes === undefined) throw new Error("connection closed");
    this.#unread = bytes as Uint8Array<ArrayBuffer>;
  }
}

function findFraming(headers: ReadonlyMap<string, string>): Framing {
  const encoding = headers.get("transfer-encoding");
  if (encoding?.toLowerCase() === "chunked") return "chunks";
  if (encoding !== undefined) throw malformed(`its encoding is "${encoding}"`);
  return headers.has("content-length") ? "length" : "until the end";
}

function parseLength(text = ""): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw malformed(`its length is "${text}"`);
}

function malformed(why: string): Error {
  return new Error(`Cannot read the answer: ${why}`);
}
