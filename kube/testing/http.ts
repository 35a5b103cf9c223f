/**
 * A request and its response.
 *
 * @module
 */

import { once } from "node:events";
import {
  createServer as createHttpServer,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import { createServer as createHttpsServer } from "node:https";
import {
  createServer as createSilentServer,
  type Server,
  type Socket,
} from "node:net";
import { setImmediate } from "node:timers";
import type { TLSSocket } from "node:tls";
import { gzipSync } from "node:zlib";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import type { Certificate } from "./certificates.ts";
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
    // Through a proxy, which a unix socket is to Deno, the server is also
    // named.
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

/**
 * Ports that the kernel assigns to no program by itself, so that no other program has
 * the port of a server that is down for a while. fetch() refuses 10080 and
 * some lower ports, which other protocols have.
 *
 * Source: WHATWG Fetch, "port blocking".
 */
const FIRST_PORT = 10_081, PORTS = 20_000;

/** The listening address, and the handler of requests. */
export interface ListenerOptions {
  /** Undefined for HTTP without TLS. */
  readonly tls: (Certificate & { readonly ca: string }) | undefined;
  /** Whether a client without a good certificate is refused. */
  readonly needsCertificate: boolean;
  readonly netns: NetNs | undefined;
  readonly hostname: string;
  /** Any that is free if 0. */
  readonly port: number;
  /** Instead of a port. */
  readonly socketPath: string | undefined;
  onRequest(incoming: IncomingMessage, outgoing: ServerResponse): void;
}

/** The protocols that a client offers. */
interface ProtocolOffer {
  /** As `h2` and `http/1.1`. */
  readonly protocols: readonly string[];
}

/** Listens, or does not. */
export class Listener {
  readonly #options: ListenerOptions;
  readonly #sockets = new Set<Socket>();
  /** By the port they come from. */
  readonly #certified = new Map<number, string>();
  readonly #offeredProtocols = new Set<string>();
  #server: Server | undefined;
  #port: number;
  #connections = 0;

  /** Creates a listener that does not listen yet. */
  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#port = options.port;
  }

  /** The port, which does not change after the first start. */
  get port(): number {
    return this.#port;
  }

  /** Counts the connections on which something could be asked. */
  get connections(): number {
    return this.#connections;
  }

  /** The protocols that clients have offered over TLS. */
  get offeredProtocols(): ReadonlySet<string> {
    return this.#offeredProtocols;
  }

  /** Returns the common name of a request's client certificate, if any; "" if it is invalid. */
  certifiedUser(incoming: IncomingMessage): string | undefined {
    return this.#certified.get(incoming.socket.remotePort ?? 0);
  }

  /**
   * Closes the connection of a request immediately, without TLS close_notify.
   */
  cut(incoming: IncomingMessage): void {
    const { socket: own } = incoming;
    for (const socket of this.#sockets) {
      // The TLS socket is a different object, but its port is the same.
      const isSame = own.remotePort === undefined
        ? socket === own
        : socket.remotePort === own.remotePort;
      if (isSame) socket.destroy();
    }
  }

  /** Listens. */
  async open(): Promise<void> {
    await this.#listen(this.#createServer());
  }

  /** Accepts connections, and never answers. */
  async openSilently(): Promise<void> {
    await this.#listen(createSilentServer());
  }

  /** Cuts all connections, and refuses more. Nothing happens if it does so already. */
  async close(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    this.#server = undefined;
    const closed = new Promise<void>((done) => server.close(() => done()));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  async #listen(server: Server): Promise<void> {
    this.#server = server;
    server.on("connection", (socket: Socket) => this.#keep(socket));
    for (;;) {
      const port = this.#port || FIRST_PORT + Math.floor(Math.random() * PORTS);
      const listening = once(server, "listening");
      this.#bind(server, port);
      try {
        await listening;
      } catch (error) {
        const { code } = error as { code?: string };
        if (code === "EADDRINUSE" && this.#port === 0) continue;
        throw error;
      }
      if (this.#options.socketPath === undefined) this.#port = port;
      return;
    }
  }

  /** Without an address node binds immediately, while the thread is inside. */
  #bind(server: Server, port: number): void {
    const { netns, hostname, socketPath } = this.#options;
    if (socketPath !== undefined) server.listen(socketPath);
    else if (netns === undefined) server.listen(port, hostname);
    else inNetns(netns, () => void server.listen(port));
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    // As Go's servers do; without it, every other response takes 40 ms.
    socket.setNoDelay(true);
    socket.on("error", () => {});
    socket.once("close", () => this.#sockets.delete(socket));
  }

  #createServer(): Server {
    const { tls, onRequest } = this.#options;
    if (tls === undefined) {
      const server = createHttpServer(onRequest);
      return server.on("connection", () => this.#connections++);
    }
    const options = {
      ...tls,
      requestCert: true,
      rejectUnauthorized: this.#options.needsCertificate,
      minVersion: "TLSv1.2",
      ALPNCallback: (offer: ProtocolOffer) => this.#choose(offer),
    } as const;
    return createHttpsServer(options, onRequest)
      .on("secureConnection", (socket: TLSSocket) => this.#greet(socket))
      .on("tlsClientError", () => {});
  }

  /** Speaks HTTP/1.1 only, but records the other protocols on offer. */
  #choose({ protocols }: ProtocolOffer): string | undefined {
    for (const name of protocols) this.#offeredProtocols.add(name);
    return protocols.find((name) => name === "http/1.1");
  }

  #greet(socket: TLSSocket): void {
    this.#connections++;
    const port = socket.remotePort ?? 0;
    this.#certified.delete(port);
    const { subject } = socket.getPeerCertificate();
    if (subject === undefined) return;
    this.#certified.set(port, socket.authorized ? String(subject.CN) : "");
  }
}
