/**
 * Bytes of a connection, as lines and as they come.
 *
 * Source: RFC 9112 section 2.2.
 *
 * @module
 */

/** Reads what has come; undefined at the end. A piece is good until the next one. */
export type ReadBytes = () => Promise<Uint8Array | undefined>;

const LF = 0x0a;

/** Reads lines, and what is between them. */
export class LineReader {
  readonly #read: ReadBytes;
  /** Makes each byte a character: lines are the same in whatever pieces they come. */
  readonly #decoder = new TextDecoder("latin1");
  #unread = new Uint8Array();
  #part = "";
  #roomBytes = 0;

  /** Nothing is read yet. */
  constructor(read: ReadBytes) {
    this.#read = read;
  }

  /** Whether bytes have come that are not read. */
  get hasUnread(): boolean {
    return this.#unread.length > 0;
  }

  /**
   * Begins a part.
   *
   * @param part What its lines are, for messages
   * @param maxBytes How long they may be, all together
   */
  begin(part: string, maxBytes: number): void {
    this.#part = part;
    this.#roomBytes = maxBytes;
  }

  /** Lets the lines of this part be longer, but have room for no more than that. */
  allow(bytes: number, maxBytes: number): void {
    this.#roomBytes = Math.min(this.#roomBytes + bytes, maxBytes);
  }

  /**
   * Reads a line, of which the end is left out.
   *
   * @throws {Error} If it is too long, or contains what it may not
   */
  async readLine(): Promise<string> {
    for (let line = "";;) {
      if (!this.hasUnread) await this.#readMore();
      const end = this.#unread.indexOf(LF) + 1;
      const piece = this.#take(end || Infinity);
      this.#roomBytes -= piece.length;
      if (this.#roomBytes < 0) throw malformed(`${this.#part} has no end`);
      line += this.#decoder.decode(piece);
      if (end > 0) return cutEnd(line);
    }
  }

  /**
   * Reads some bytes of so many.
   *
   * @throws {Error} If there are no more
   */
  async readSome(count: number): Promise<Uint8Array> {
    if (!this.hasUnread) await this.#readMore();
    return this.#take(count);
  }

  /** Reads any bytes; undefined at the end. */
  async readAny(): Promise<Uint8Array | undefined> {
    return this.hasUnread ? this.#take(Infinity) : await this.#read();
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

/** An LF by itself would do as an end, which nobody needs. The first one is the last. */
function cutEnd(line: string): string {
  const text = line.slice(0, -2);
  const isWhole = line.endsWith("\r\n") && !text.includes("\r") &&
    !text.includes("\0");
  if (isWhole) return text;
  throw malformed("a line has a CR, LF or NUL of its own");
}

/** Makes the error of an answer that is none. */
export function malformed(why: string): Error {
  return new Error(`Cannot read the answer: ${why}`);
}
