/**
 * A node daemon that says what it was told to, whatever that is.
 *
 * @module
 */

import { readToEnd, say, TalkServer } from "./talk_server.ts";

/** The request of a caller. */
export interface HandedRequest {
  readonly v: number;
  readonly build: string;
  readonly name: string;
  readonly world: Readonly<Record<string, unknown>>;
  readonly exe: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** A connection of a caller, after its request. */
export interface Conversation {
  /** Sends text, or bytes. */
  say(what: string | Uint8Array): Promise<void>;
  /** Waits until the caller is gone. */
  callerGone(): Promise<void>;
}

/** Answers a caller; the connection is closed afterwards. */
export type Reply = (conversation: Conversation) => Promise<void> | void;

/** The daemon. */
export class FakeDaemon implements AsyncDisposable {
  readonly #folder = Deno.makeTempDirSync({ prefix: "cni-test-" });
  /** Where it listens. */
  readonly path: string = `${this.#folder}/daemon.sock`;
  /** The request of each connection. */
  readonly requests: HandedRequest[] = [];
  readonly #server: TalkServer<Deno.UnixConn>;

  /** Listens. */
  constructor(reply: Reply) {
    const listener = Deno.listen({ transport: "unix", path: this.path });
    this.#server = new TalkServer(listener, async (connection) => {
      this.requests.push(JSON.parse(await readLine(connection)));
      await reply({
        say: (what) => say(connection, what),
        callerGone: () => readToEnd(connection),
      });
    });
  }

  /** Cuts all connections. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server[Symbol.asyncDispose]();
    Deno.removeSync(this.#folder, { recursive: true });
  }
}

async function readLine(connection: Deno.Conn): Promise<string> {
  const decoder = new TextDecoder();
  const buffer = new Uint8Array(64 * 1024);
  let text = "";
  while (!text.endsWith("\n")) {
    const length = await connection.read(buffer);
    if (length === null) throw new Error(`a request without an end: ${text}`);
    text += decoder.decode(buffer.subarray(0, length), { stream: true });
  }
  return text;
}
