/**
 * A request and its response.
 *
 * @module
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import { setImmediate } from "node:timers";
import { gzipSync } from "node:zlib";
import type { FaultRule } from "./faults.ts";
import type { Answer } from "./operations.ts";

/** Larger responses are compressed if the client accepts it. Source: k8s.io/apiserver responsewriters */
const GZIP_THRESHOLD = 128 * 1024;

/** A complete request, and its response. */
export class Exchange {
  readonly #incoming: IncomingMessage;
  readonly #outgoing: ServerResponse;
  readonly #cut: () => void;
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly body: string;

  private constructor(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    { body, cut }: { body: string; cut: () => void },
  ) {
    this.#incoming = incoming;
    this.#outgoing = outgoing;
    this.#cut = cut;
    this.method = incoming.method ?? "";
    // Through a proxy, which a unix socket is to Deno, the server is named too.
    this.path = (incoming.url ?? "").replace(/^https?:\/\/[^/]*/, "");
    this.body = body;
  }

  /**
   * Reads a request.
   *
   * @param cut Closes its connection
   * @returns Undefined if the client aborts it
   */
  static async read(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    cut: () => void,
  ): Promise<Exchange | undefined> {
    const chunks: Uint8Array[] = [];
    outgoing.on("error", () => {});
    try {
      for await (const chunk of incoming) chunks.push(chunk);
    } catch {
      return undefined;
    }
    const body = await new Blob(chunks.map((chunk) => Uint8Array.from(chunk)))
      .text();
    return new Exchange(incoming, outgoing, { body, cut });
  }

  /** Its headers, by lower-case name. */
  get headers(): Record<string, string> {
    const all = Object.entries(this.#incoming.headers);
    return Object.fromEntries(all.map(([name, value]) => [name, `${value}`]));
  }

  /** `1.1`, of old clients `1.0`. */
  get httpVersion(): string {
    return this.#incoming.httpVersion;
  }

  /** Sends a response, or half of it if the rule says so. */
  send({ status, body }: Answer, rule: FaultRule): void {
    if (this.#outgoing.destroyed || this.#outgoing.writableEnded) return;
    const isText = typeof body === "string";
    const text = isText ? body : `${JSON.stringify(body)}\n`;
    const [bytes, encoding] = this.#compress(new TextEncoder().encode(text));
    this.#outgoing.writeHead(status, {
      "content-type": isText ? "text/plain; charset=utf-8" : "application/json",
      "cache-control": "no-cache, private",
      "content-length": bytes.length,
      ...encoding,
      ...(rule.retryAfter === undefined
        ? {}
        : { "retry-after": String(rule.retryAfter) }),
      ...rule.headers,
    });
    if (rule.drop !== "mid-body") this.#end(bytes);
    else this.breakOff(bytes.subarray(0, Math.ceil(bytes.length / 2)));
  }

  /** Starts a streamed response. */
  startStream(): { write(text: string): void; end(): void } {
    const outgoing = this.#outgoing;
    outgoing.writeHead(200, { "content-type": "application/json" });
    outgoing.flushHeaders();
    return {
      write: (text) => void this.#write(new TextEncoder().encode(text)),
      end: () => this.#end(new Uint8Array()),
    };
  }

  /** Calls the listener once the response has ended, on either side. */
  onClose(listener: () => void): void {
    this.#outgoing.once("close", listener);
  }

  /** Sends a part of a response, and closes the connection. */
  breakOff(beginning: Uint8Array | string): void {
    const isText = typeof beginning === "string";
    const bytes = isText ? new TextEncoder().encode(beginning) : beginning;
    this.#write(bytes, () => setImmediate(() => this.cut()));
  }

  /** Closes the connection. */
  cut(): void {
    this.#cut();
  }

  #compress(bytes: Uint8Array): [Uint8Array, Record<string, string>] {
    const accepted = this.headers["accept-encoding"] ?? "";
    if (bytes.length < GZIP_THRESHOLD || !accepted.includes("gzip")) {
      return [bytes, {}];
    }
    return [gzipSync(bytes), { "content-encoding": "gzip" }];
  }

  #end(bytes: Uint8Array): void {
    this.#outgoing.end(bytes);
  }

  #write(bytes: Uint8Array, done: () => void = () => {}): void {
    this.#outgoing.write(bytes, done);
  }
}
