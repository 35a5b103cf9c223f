/**
 * A server on a unix socket that says to each connection what it was told to,
 * whatever that is.
 *
 * @module
 */

import { concat } from "../../ffi/netlink/struct.ts";

/** What is said to a connection. */
export interface UnixConversation {
  /** What has come, as text: the head of a request at least. */
  readonly request: string;
  /** Sends text, or bytes. */
  say(what: string | Uint8Array): Promise<void>;
  /** Says nothing more until the connection is closed, from here or there. */
  saySilence(): Promise<void>;
}

/** Says something; the connection is closed when it has. */
export type Speak = (conversation: UnixConversation) => Promise<void> | void;

/** The server. */
export class UnixServer implements AsyncDisposable {
  readonly #folder = Deno.makeTempDirSync({ prefix: "cni-test-" });
  /** Where it listens. */
  readonly path: string = `${this.#folder}/s.sock`;
  /** What has come, by connection. */
  readonly requests: string[] = [];
  readonly #listener = Deno.listen({ transport: "unix", path: this.path });
  readonly #connections = new Set<Deno.UnixConn>();
  readonly #running: Promise<void>;

  /** Listens. */
  constructor(speak: Speak) {
    this.#running = this.#accept(speak);
  }

  async #accept(speak: Speak): Promise<void> {
    const running: Promise<void>[] = [];
    for await (const connection of this.#listener) {
      this.#connections.add(connection);
      running.push(this.#talk(connection, speak));
    }
    await Promise.all(running);
  }

  async #talk(connection: Deno.UnixConn, speak: Speak): Promise<void> {
    try {
      const request = await readHead(connection);
      this.requests.push(request);
      await speak({
        request,
        say: (what) => say(connection, what),
        saySilence: () => readToEnd(connection),
      });
    } catch {
      // It was closed, from here or from there.
    } finally {
      this.#connections.delete(connection);
      connection[Symbol.dispose]();
    }
  }

  /** Cuts all connections. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    for (const connection of this.#connections) connection[Symbol.dispose]();
    await this.#running;
    Deno.removeSync(this.#folder, { recursive: true });
  }
}

/** Leaves a socket behind on which nobody listens, as a daemon does that is killed. */
export function leaveSocket(path: string): void {
  const first = `${path}.first`;
  const listener = Deno.listen({ transport: "unix", path: first });
  // Deno removes the one that it has made.
  Deno.renameSync(first, path);
  listener.close();
}

/** Never says anything. */
export function saySilence(conversation: UnixConversation): Promise<void> {
  return conversation.saySilence();
}

async function readHead(connection: Deno.UnixConn): Promise<string> {
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

async function readToEnd(connection: Deno.UnixConn): Promise<void> {
  const nobodyCares = new Uint8Array(1024);
  while (await connection.read(nobodyCares) !== null);
}

async function say(
  connection: Deno.UnixConn,
  what: string | Uint8Array,
): Promise<void> {
  const bytes = typeof what === "string"
    ? new TextEncoder().encode(what)
    : what;
  for (let at = 0; at < bytes.length;) {
    at += await connection.write(bytes.subarray(at));
  }
}
