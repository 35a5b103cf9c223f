/**
 * Reads lines and raw bytes from a connection.
 *
 * Source: RFC 9112 section 2.2.
 *
 * @module
 */

/**
 * Reads received bytes; undefined at the end. A piece is valid until the next
 * call.
 */
export type ReadBytes = () => Promise<Uint8Array | undefined>;

const LF = 0x0a;

/** Reads lines, and the bytes between them. */
export class LineReader {
  readonly #read: ReadBytes;
  /** Decodes each byte to one character, so that pieces may end at any byte. */
  readonly #decoder = new TextDecoder("latin1");
  #unread = new Uint8Array();
  #part = "";
  #roomBytes = 0;

  /** Creates a reader without reading. */
  constructor(read: ReadBytes) {
    this.#read = read;
  }

  /** Whether received bytes are left. */
  get hasUnread(): boolean {
    return this.#unread.length > 0;
  }

  /**
   * Begins a part.
   *
   * @param part Name of the part, for messages
   * @param maxBytes Total size limit of its lines
   */
  begin(part: string, maxBytes: number): void {
    this.#part = part;
    this.#roomBytes = maxBytes;
  }

  /** Adds to the remaining size of this part's lines, up to a maximum. */
  allow(bytes: number, maxBytes: number): void {
    this.#roomBytes = Math.min(this.#roomBytes + bytes, maxBytes);
  }

  /**
   * Reads a line without its line end.
   *
   * @throws {Error} If it is too long, or has invalid characters
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
   * Reads at least one byte and at most `count`.
   *
   * @throws {Error} If the connection has ended
   */
  async readSome(count: number): Promise<Uint8Array> {
    if (!this.hasUnread) await this.#readMore();
    return this.#take(count);
  }

  /** Reads the next bytes; undefined at the end. */
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

/**
 * Cuts CRLF off. Refuses a bare LF, which the RFC would allow, and any other
 * CR.
 */
function cutEnd(line: string): string {
  const text = line.slice(0, -2);
  const isWhole = line.endsWith("\r\n") && !text.includes("\r") &&
    !text.includes("\0");
  if (isWhole) return text;
  throw malformed("a line has a CR, LF or NUL of its own");
}

/** Returns the error for a malformed answer. */
export function malformed(why: string): Error {
  return new Error(`Cannot read the answer: ${why}`);
}
