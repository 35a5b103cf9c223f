/**
 * A node daemon that says what it was told to, whatever that is.
 *
 * @module
 */

import { concat } from "../../net/bytes.ts";
import {
  type CallRequest,
  decodeRequest,
  encodeMessage,
  type Message,
  sizeOfRequest,
} from "../../node/daemon/protocol.ts";
import { readToEnd, say, TalkServer } from "./talk_server.ts";

/** The request of a caller. */
export interface HandedRequest extends Omit<CallRequest, "stdin"> {
  readonly stdin: string;
}

/** A connection of a caller, after its request. */
export interface Conversation {
  /** Sends messages; or text or bytes as they are. */
  say(...what: (Message | string | Uint8Array)[]): Promise<void>;
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
      this.requests.push(await readRequest(connection));
      await reply({
        say: (...what) => sayAll(connection, what),
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

async function sayAll(
  connection: Deno.Conn,
  what: Parameters<Conversation["say"]>,
): Promise<void> {
  for (const one of what) {
    const isRaw = typeof one === "string" || one instanceof Uint8Array;
    await say(connection, isRaw ? one : encodeMessage(one));
  }
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
