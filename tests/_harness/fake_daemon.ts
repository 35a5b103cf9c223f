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
} from "../../daemon/protocol/request.ts";
import { say, TalkServer } from "./talk_server.ts";

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
