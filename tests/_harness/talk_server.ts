/**
 * A server that runs a function on each connection.
 *
 * @module
 */

import { concat } from "../../net/bytes.ts";

/** Handles a connection, which is closed afterwards. */
export type Talk<C extends Deno.Conn> = (
  connection: C,
  index: number,
) => Promise<void>;

/** The server. */
export class TalkServer<C extends Deno.Conn> implements AsyncDisposable {
  readonly #listener: AsyncIterable<C> & Disposable;
  readonly #open = new Set<C>();
  readonly #running: Promise<void>;
  #connections = 0;

  /** Accepts all connections, and takes over the listener. */
  constructor(listener: AsyncIterable<C> & Disposable, talk: Talk<C>) {
    this.#listener = listener;
    this.#running = this.#accept(talk);
  }

  /** Counts the connections so far. */
  get connections(): number {
    return this.#connections;
  }

  async #accept(talk: Talk<C>): Promise<void> {
    const running: Promise<void>[] = [];
    for await (const connection of this.#listener) {
      this.#open.add(connection);
      running.push(this.#talk(connection, talk));
    }
    await Promise.all(running);
  }

  async #talk(connection: C, talk: Talk<C>): Promise<void> {
    try {
      await talk(connection, this.#connections++);
    } catch {
      // It was closed, from here or from there.
    } finally {
      this.#open.delete(connection);
      connection[Symbol.dispose]();
    }
  }

  /** Closes all connections. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener[Symbol.dispose]();
    for (const connection of this.#open) connection[Symbol.dispose]();
    await this.#running;
  }
}

/** Reads the head of a request, and what arrives with its end. */
export async function readHead(connection: Deno.Conn): Promise<string> {
  let bytes = new Uint8Array();
  for (;;) {
    const text = new TextDecoder().decode(bytes);
    if (text.includes("\r\n\r\n")) return text;
    const chunk = new Uint8Array(65536);
    const count = await connection.read(chunk);
    if (count === null) return text;
    bytes = concat([bytes, chunk.subarray(0, count)]);
  }
}

/** Reads until the other side closes. */
export async function readToEnd(connection: Deno.Conn): Promise<void> {
  const nobodyCares = new Uint8Array(1024);
  while (await connection.read(nobodyCares) !== null);
}

/** Sends text, or bytes. */
export async function say(
  connection: Deno.Conn,
  what: string | Uint8Array,
): Promise<void> {
  const bytes = typeof what === "string"
    ? new TextEncoder().encode(what)
    : what;
  for (let at = 0; at < bytes.length;) {
    at += await connection.write(bytes.subarray(at));
  }
}
