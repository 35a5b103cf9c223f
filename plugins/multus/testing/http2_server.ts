/**
 * An HTTP/2 server on a unix socket, in a process of Node.js.
 *
 * @module
 */

import type { Bytes } from "../../../net/bytes.ts";

const SCRIPT = new URL("http2_server.mjs", import.meta.url).pathname;

/** Headers by name in lower case, the pseudo-headers with their colons. */
export type HeaderRecord = Readonly<Record<string, string>>;

/** A complete request. */
export interface Http2Request {
  readonly headers: HeaderRecord;
  readonly body: Bytes;
}

/** The reply to a request. */
export interface Http2Reply {
  readonly headers: HeaderRecord;
  /** Undefined if the headers end the stream. */
  readonly body?: Bytes;
  readonly trailers?: HeaderRecord;
  /** Resets the stream with INTERNAL_ERROR, or closes the connection, after the body. */
  readonly drop?: "stream" | "connection" | undefined;
}

/** Sends a reply; does nothing if the stream is closed. */
export type SendReply = (reply: Http2Reply) => void;

type ServerEvent =
  | { readonly event: "listening" }
  | { readonly event: "connection" }
  | {
    readonly event: "request";
    readonly id: number;
    readonly headers: HeaderRecord;
    readonly body: string;
  };

/** A server, which exits when its input ends, even if the test is killed. */
export class Http2Server implements AsyncDisposable {
  readonly #onRequest: (request: Http2Request, send: SendReply) => void;
  readonly #child: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;
  readonly #listening = Promise.withResolvers<void>();
  readonly #reading: Promise<void>;
  #connections = 0;

  private constructor(
    socketPath: string,
    onRequest: (request: Http2Request, send: SendReply) => void,
  ) {
    this.#onRequest = onRequest;
    this.#child = new Deno.Command("node", {
      args: [SCRIPT, socketPath],
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    this.#input = this.#child.stdin.getWriter();
    this.#reading = this.#read();
  }

  /**
   * Starts to listen.
   *
   * @throws {Deno.errors.NotFound} If `node` is not on the PATH
   * @throws {Error} If the process exits instead; it prints the reason
   */
  static async start(
    socketPath: string,
    onRequest: (request: Http2Request, send: SendReply) => void,
  ): Promise<Http2Server> {
    const server = new Http2Server(socketPath, onRequest);
    await server.#listening.promise;
    return server;
  }

  /** Counts the accepted connections. */
  get connections(): number {
    return this.#connections;
  }

  async #read(): Promise<void> {
    let rest = "";
    const text = this.#child.stdout.pipeThrough(new TextDecoderStream());
    for await (const chunk of text) {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.#take(JSON.parse(line));
    }
    // Has no effect once it listens.
    this.#listening.reject(new Error("The HTTP/2 server did not start"));
  }

  #take(event: ServerEvent): void {
    if (event.event === "listening") return this.#listening.resolve();
    if (event.event === "connection") return void this.#connections++;
    const { id, headers } = event;
    const request = { headers, body: Uint8Array.fromBase64(event.body) };
    this.#onRequest(request, (reply) => this.#send(id, reply));
  }

  #send(id: number, reply: Http2Reply): void {
    const message = { id, ...reply, body: reply.body?.toBase64() };
    const line = new TextEncoder().encode(`${JSON.stringify(message)}\n`);
    // If the process has exited, its exit code reports that.
    this.#input.write(line).catch(() => {});
  }

  /**
   * Closes all connections.
   *
   * @throws {Error} If the process failed
   */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#input.close().catch(() => {});
    await this.#reading;
    const { code, signal } = await this.#child.status;
    if (code !== 0) {
      throw new Error(`The HTTP/2 server ended with ${signal ?? code}`);
    }
  }
}
