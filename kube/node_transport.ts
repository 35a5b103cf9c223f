/**
 * A transport by Node's HTTP, for features that `fetch` lacks. Loaded on
 * demand.
 *
 * @module
 */

import type { Agent, ClientRequest, IncomingMessage } from "node:http";
import type { AgentOptions, RequestOptions } from "node:https";
import type { Access, ClientCertificate, Header } from "./access.ts";
import type {
  HttpAnswer,
  HttpRequest,
  OpenTransport,
  Transport,
} from "./transport.ts";

/** The used parts of `node:https` and `node:http`. */
interface NodeHttp {
  request(
    url: string,
    options: RequestOptions,
    onAnswer: (answer: IncomingMessage) => void,
  ): ClientRequest;
}

/**
 * Loads the transport for a server.
 *
 * @param server The server's URL
 */
export async function loadNodeTransport(
  server: string,
): Promise<OpenTransport> {
  if (server.startsWith("https:")) {
    const https = await import("node:https");
    return (access, certificate) =>
      new NodeTransport(
        https,
        new https.Agent(describeTls(access, certificate)),
      );
  }
  const http = await import("node:http");
  return () => new NodeTransport(http, new http.Agent(CONNECTIONS));
}

/**
 * Limits of connections: two watches, and requests of 16 simultaneous calls. Further
 * requests wait. A few connections remain open, because the first request of a
 * connection is slow.
 */
const CONNECTIONS = { keepAlive: true, maxSockets: 18, maxFreeSockets: 8 };

function describeTls(
  { caCerts, isInsecure, tlsServerName, proxyUrl }: Access,
  certificate: ClientCertificate | undefined,
): AgentOptions {
  if (proxyUrl !== undefined) {
    throw new Error(
      "proxy-url cannot be combined with insecure-skip-tls-verify, tls-server-name or a server that is its own authority",
    );
  }
  return {
    ...CONNECTIONS,
    rejectUnauthorized: !isInsecure,
    ca: [...caCerts],
    ...tlsServerName === undefined ? {} : { servername: tlsServerName },
    ...certificate,
  };
}

class NodeTransport implements Transport {
  readonly #http: NodeHttp;
  readonly #agent: Agent;

  constructor(http: NodeHttp, agent: Agent) {
    this.#http = http;
    this.#agent = agent;
  }

  send(request: HttpRequest, signal: AbortSignal): Promise<HttpAnswer> {
    const { url, method, headers, body = "" } = request;
    const bytes = new TextEncoder().encode(body);
    const { promise, resolve, reject } = Promise.withResolvers<HttpAnswer>();
    const options = { method, agent: this.#agent, signal };
    const sent = this.#http.request(url, options, (answer) => {
      resolve({
        status: answer.statusCode ?? 0,
        headers: { get: (name) => findHeader(answer, name) },
        body: ReadableStream.from<Uint8Array>(answer),
      });
    });
    for (const [name, values] of groupByName(headers)) {
      sent.setHeader(name, values);
    }
    // Otherwise the body of a DELETE would be sent without its length.
    if (body !== "") sent.setHeader("Content-Length", bytes.length);
    sent.on("error", reject);
    sent.end(bytes);
    return promise;
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }
}

function findHeader({ headers }: IncomingMessage, name: string): string | null {
  const value = headers[name.toLowerCase()];
  return (Array.isArray(value) ? value[0] : value) ?? null;
}

function groupByName(headers: readonly Header[]): Map<string, string[]> {
  const groups = Map.groupBy(headers, ([name]) => name);
  return new Map(
    [...groups].map(([name, group]) => [name, group.map(([, value]) => value)]),
  );
}
