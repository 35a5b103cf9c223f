/**
 * A server on a unix socket that says to each connection what it was told to,
 * whatever that is.
 *
 * @module
 */

import { readHead, readToEnd, say, TalkServer } from "./talk_server.ts";

/** The reply to a connection. */
export interface UnixConversation {
  /** The received text: at least the head of a request. */
  readonly request: string;
  /** Sends text, or bytes. */
  say(what: string | Uint8Array): Promise<void>;
  /** Waits until either side closes the connection. */
  saySilence(): Promise<void>;
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
        saySilence: () => readToEnd(connection),
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
export function saySilence(conversation: UnixConversation): Promise<void> {
  return conversation.saySilence();
}
