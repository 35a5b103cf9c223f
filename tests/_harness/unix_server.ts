/**
 * Servers that run a function on each connection, or say to it what they were told
 * to: any server, one on a unix socket, and a node daemon.
 *
 * @module
 */

import {
  type CallRequest,
  decodeRequest,
  encodeMessage,
  type Message,
  sizeOfRequest,
} from "../../daemon/wire/request.ts";
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
  const ignored = new Uint8Array(1024);
  while (await connection.read(ignored) !== null);
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

/** The reply to a connection. */
export interface UnixConversation {
  /** The received text: at least the head of a request. */
  readonly request: string;
  /** Sends text, or bytes. */
  say(what: string | Uint8Array): Promise<void>;
  /** Waits until either side closes the connection. */
  stayOpen(): Promise<void>;
}

/** Sends a reply; the connection is closed afterwards. */
export type Speak = (conversation: UnixConversation) => Promise<void> | void;

/** The server. */
export class UnixServer implements AsyncDisposable {
  readonly #directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  /** Where it listens. */
  readonly path: string = `${this.#directory}/s.sock`;
  /** The received text of each connection. */
  readonly requests: string[] = [];
  readonly #server: TalkServer<Deno.UnixConn>;

  /** Listens. */
  constructor(speak: Speak) {
    const listener = Deno.listen({ transport: "unix", path: this.path });
    this.#server = new TalkServer(listener, async (connection) => {
      const request = await readHead(connection);
      this.requests.push(request);
      await speak({
        request,
        say: (what) => say(connection, what),
        stayOpen: () => readToEnd(connection),
      });
    });
  }

  /** Cuts all connections. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server[Symbol.asyncDispose]();
    Deno.removeSync(this.#directory, { recursive: true });
  }
}

/** Leaves a socket without a listener, as a killed daemon does. */
export function leaveSocket(path: string): void {
  const first = `${path}.first`;
  const listener = Deno.listen({ transport: "unix", path: first });
  // Deno removes the one that it has made.
  Deno.renameSync(first, path);
  listener.close();
}

/** Never says anything. */
export function stayOpen(conversation: UnixConversation): Promise<void> {
  return conversation.stayOpen();
}

/** The request of a caller. */
export interface HandedRequest extends Omit<CallRequest, "stdin"> {
  readonly stdin: string;
}

/** A connection of a caller, after its request. */
export interface Conversation {
  /** Sends messages; or bytes as they are. */
  say(...what: (Message | Uint8Array)[]): Promise<void>;
  /** Says no more, and returns what the caller says until it is gone. */
  callerSays(): Promise<string>;
  /** Waits until the caller is gone. */
  callerGone(): Promise<void>;
}

/** Answers a caller; the connection is closed afterwards. */
export type Reply = (conversation: Conversation) => Promise<void> | void;

/** The daemon. */
export class FakeDaemon implements AsyncDisposable {
  readonly #directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  /** Where it listens. */
  readonly path: string = `${this.#directory}/daemon.sock`;
  /** The request of each connection. */
  readonly requests: HandedRequest[] = [];
  readonly #server: TalkServer<Deno.UnixConn>;

  /**
   * Listens.
   *
   * @param options `isTaken`: whether it says that it takes each call; it does by default
   */
  constructor(reply: Reply, { isTaken = true } = {}) {
    const listener = Deno.listen({ transport: "unix", path: this.path });
    this.#server = new TalkServer(listener, async (connection) => {
      this.requests.push(await readRequest(connection));
      if (isTaken) await sayAll(connection, ["taken", "alive"]);
      await reply({
        say: (...what) => sayAll(connection, what),
        callerSays: async () => {
          await connection.closeWrite().catch(() => {});
          return await readText(connection);
        },
        callerGone: async () => void await readText(connection),
      });
    });
  }

  /** Cuts all connections. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server[Symbol.asyncDispose]();
    Deno.removeSync(this.#directory, { recursive: true });
  }
}

async function sayAll(
  connection: Deno.Conn,
  what: Parameters<Conversation["say"]>,
): Promise<void> {
  for (const one of what) {
    const bytes = one instanceof Uint8Array ? one : encodeMessage(one);
    await say(connection, bytes);
  }
}

/** Reads to the end, or until the caller has gone without reading all. */
async function readText(connection: Deno.Conn): Promise<string> {
  let text = "";
  try {
    for await (const bytes of connection.readable) {
      text += new TextDecoder().decode(bytes);
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.ConnectionReset)) throw error;
  }
  return text;
}

async function readRequest(connection: Deno.Conn): Promise<HandedRequest> {
  const buffer = new Uint8Array(64 * 1024);
  let bytes = new Uint8Array();
  for (;;) {
    const length = await connection.read(buffer);
    if (length === null) throw new Error("a request without an end");
    bytes = concat([bytes, buffer.subarray(0, length)]);
    if (bytes.length !== sizeOfRequest(bytes)) continue;
    const request = decodeRequest(bytes);
    return { ...request, stdin: new TextDecoder().decode(request.stdin) };
  }
}
