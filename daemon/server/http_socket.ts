/**
 * HTTP/1.1 on a unix socket, one request per connection.
 *
 * Unlike `Deno.serve`, it identifies the callers, and detects that a caller
 * disconnects before its answer: Deno does not if the request came in several
 * pieces.
 *
 * Source: RFC 9112.
 *
 * @module
 */

import { concat } from "../../net/bytes.ts";
import { describeError } from "../../base/error.ts";
import type { Log } from "../../base/log/log.ts";
import type { Caller } from "./call_progress.ts";
import {
  PrivateSocket,
  type RequestExchange,
} from "../../base/service/private_socket.ts";
import type { Admission, RefusalReason } from "../../base/service/admission.ts";

/** Longest head of a request, in bytes. */
const MAX_HEAD = 16 * 1024;

/** Longest body, in bytes. */
const MAX_BODY = 16 * 1024 * 1024;

/** Options of an {@linkcode HttpSocket}. */
export interface HttpSocketOptions {
  /**
   * Answers a request. The caller's signal is not the request's: that would
   * leak, as `AbortSignal.any()` does.
   */
  readonly respond: (request: Request, caller: Caller) => Promise<Response>;
  readonly log: Pick<Log, "warn">;
  /** See {@linkcode MAX_BODY}. */
  readonly maxBody?: number;
  /** Least time for a request to arrive, in ms; 10 s by default. */
  readonly requestTimeoutMs?: number;
  /** Bounds on connections, together with other sockets'; its own if undefined. */
  readonly admission?: Admission;
}

/** Serves HTTP. */
export class HttpSocket extends PrivateSocket {
  /** Creates it; `listen()` opens a socket. */
  constructor(options: HttpSocketOptions) {
    super({
      what: "a request",
      log: options.log,
      requestTimeoutMs: options.requestTimeoutMs,
      admission: options.admission,
      begin: (connection, onEnded) =>
        new HttpExchange(connection, options, onEnded),
    });
  }
}

/** The operations of an exchange on its connection. */
export interface ExchangeConnection {
  send(bytes: Uint8Array<ArrayBuffer>): void;
  end(): void;
  poll(): void;
}

/** Options of an {@linkcode HttpExchange}. */
export type HttpExchangeOptions = Pick<
  HttpSocketOptions,
  "respond" | "log" | "maxBody"
>;

/** The head of a request. */
interface Head {
  readonly method: string;
  readonly target: string;
  /** Length of the body, in bytes. */
  readonly length: number;
  /** Whether the caller waits for leave to send the body. */
  readonly isWaiting: boolean;
}

/** A request that is answered with a status only. */
class RefusedRequest extends Error {
  readonly status: number;

  constructor(status: number) {
    super(REASONS[status]);
    this.status = status;
  }
}

/** One connection: a request, and its answer. */
export class HttpExchange implements RequestExchange {
  readonly #connection: ExchangeConnection;
  readonly #options: HttpExchangeOptions;
  readonly #onEnded: () => void;
  readonly #gone = new AbortController();
  /** The bytes of the expected part so far; undefined after the whole request. */
  #chunks: Uint8Array<ArrayBuffer>[] | undefined = [];
  #received = 0;
  #head: Head | undefined;

  /** Waits for a request. */
  constructor(
    connection: ExchangeConnection,
    options: HttpExchangeOptions,
    onEnded: () => void,
  ) {
    this.#connection = connection;
    this.#options = options;
    this.#onEnded = onEnded;
  }

  onData(bytes: Uint8Array<ArrayBuffer>): void {
    if (this.#chunks === undefined) return; // after the request
    this.#chunks.push(bytes.slice());
    this.#received += bytes.length;
    try {
      this.#head ??= this.#readHead();
      if (this.#head === undefined) return;
      if (this.#received < this.#head.length) return;
      const body = concat(this.#chunks).subarray(0, this.#head.length);
      this.#chunks = undefined;
      this.#answer(this.#head, body);
    } catch (error) {
      this.#refuse(error instanceof RefusedRequest ? error.status : 400);
    }
  }

  onGone(): void {
    this.#chunks = undefined;
    this.#gone.abort(new Error("the caller disconnected"));
    this.#onEnded();
  }

  get bytes(): number {
    return this.#received;
  }

  get isBegun(): boolean {
    return this.#chunks === undefined;
  }

  refuse(reason: RefusalReason): void {
    this.#refuse(reason === "request not arrived" ? 408 : 503);
  }

  /** Returns the complete head, and keeps the bytes after it; undefined until then. */
  #readHead(): Head | undefined {
    const bytes = concat(this.#chunks ?? []);
    const text = new TextDecoder("latin1").decode(bytes.subarray(0, MAX_HEAD));
    const end = text.indexOf("\r\n\r\n");
    if (end < 0) {
      if (bytes.length >= MAX_HEAD) throw new RefusedRequest(431);
      // The pieces are joined only once, even if there are many.
      this.#chunks = [bytes];
      return undefined;
    }
    const head = parseHead(text.slice(0, end));
    if (head.length > (this.#options.maxBody ?? MAX_BODY)) {
      throw new RefusedRequest(413);
    }
    const rest = bytes.subarray(end + 4);
    this.#chunks = [rest];
    this.#received = rest.length;
    if (head.isWaiting) this.#connection.send(CONTINUE);
    return head;
  }

  async #answer({ method, target }: Head, body: BodyInit): Promise<void> {
    const { respond, log } = this.#options;
    try {
      const hasBody = !["GET", "HEAD"].includes(method);
      const request = new Request(new URL(target, "http://daemon"), {
        method,
        ...hasBody && { body },
      });
      const { signal } = this.#gone;
      const poll = (): void => this.#connection.poll();
      await this.#send(await respond(request, { signal, poll }));
    } catch (error) {
      log.warn("Cannot send an answer", { error: describeError(error) });
      this.#refuse(500);
    }
  }

  #refuse(status: number): void {
    this.#chunks = undefined;
    this.#end(status, [], new Uint8Array());
  }

  async #send(response: Response): Promise<void> {
    const body = await response.bytes();
    this.#end(response.status, [...response.headers], body);
  }

  #end(
    status: number,
    headers: readonly (readonly [string, string])[],
    body: Uint8Array<ArrayBuffer>,
  ): void {
    const lines = [
      `HTTP/1.1 ${status} ${REASONS[status] ?? ""}`,
      ...headers.map(([name, value]) => `${name}: ${value}`),
      `date: ${new Date().toUTCString()}`,
      `content-length: ${body.length}`,
      "connection: close",
    ];
    const head = new TextEncoder().encode(`${lines.join("\r\n")}\r\n\r\n`);
    const hasBody = this.#head?.method !== "HEAD";
    this.#connection.send(hasBody ? concat([head, body]) : head);
    this.#connection.end();
    this.#onEnded();
  }
}

const CONTINUE = new TextEncoder().encode("HTTP/1.1 100 Continue\r\n\r\n");

const REASONS: Readonly<Record<number, string>> = {
  200: "OK",
  400: "Bad Request",
  404: "Not Found",
  405: "Method Not Allowed",
  408: "Request Timeout",
  411: "Length Required",
  413: "Content Too Large",
  431: "Request Header Fields Too Large",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

/** @throws {RefusedRequest} If it is malformed, or the body has no length */
function parseHead(text: string): Head {
  const [start = "", ...lines] = text.split("\r\n");
  const [, method, target] = /^([A-Z]+) (\S+) HTTP\/1\.[01]$/.exec(start) ?? [];
  if (method === undefined || target === undefined) {
    throw new RefusedRequest(400);
  }
  const headers = new Map(lines.map((line) => {
    const [, name, value] = /^([!-9;-~]+):[ \t]*(.*?)[ \t]*$/.exec(line) ?? [];
    if (name === undefined || value === undefined) {
      throw new RefusedRequest(400);
    }
    return [name.toLowerCase(), value];
  }));
  if (headers.has("transfer-encoding")) throw new RefusedRequest(411);
  const length = headers.get("content-length") ?? "0";
  if (!/^\d{1,15}$/.test(length)) throw new RefusedRequest(400);
  const isWaiting = headers.get("expect")?.toLowerCase() === "100-continue";
  return { method, target, length: Number(length), isWaiting };
}
