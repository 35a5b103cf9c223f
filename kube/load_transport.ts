/**
 * Carries requests to one server, by `fetch` or by Node's HTTP.
 *
 * @module
 */

import type { Environment } from "../base/process/environment.ts";
import { describeError } from "../base/error.ts";
import type { Access, ClientCertificate } from "./access.ts";
import type {
  HttpAnswer,
  HttpRequest,
  OpenTransport,
  Transport,
  TransportOptions,
} from "./transport.ts";

/**
 * Loads a transport that can connect to the server.
 *
 * `fetch` cannot skip the verification of the server's certificate, cannot
 * verify a name other than the URL's, cannot ignore the environment's proxy,
 * and leaves Nagle's algorithm on (denoland/deno#35581), which delays the first
 * request of every connection but the process's first by 40 ms. Node's HTTPS
 * has none of these limits, but takes about 50 ms to load, and no proxy.
 */
export async function loadTransport(
  access: Access,
  { env, isResident = false }: TransportOptions,
): Promise<OpenTransport> {
  const { isInsecure, tlsServerName, proxyUrl } = access;
  const isProxied = proxyUrl !== undefined ||
    namesProxy(env) && !isLoopback(access.server);
  const needsNode = isInsecure || tlsServerName !== undefined ||
    !isProxied && (isResident || namesProxy(env));
  return needsNode
    ? await loadNode(access)
    : (access, certificate) => new FetchTransport(access, certificate);
}

async function loadNode({ server }: Access): Promise<OpenTransport> {
  const { loadNodeTransport } = await import("./node_transport.ts");
  return await loadNodeTransport(server);
}

/** The variables from which `fetch` takes its proxy. */
const PROXIES = ["https_proxy", "http_proxy", "all_proxy"];

function namesProxy(env: Environment): boolean {
  return PROXIES.some((name) => env[name] || env[name.toUpperCase()]);
}

/**
 * Reports whether a server is on this machine: Go uses no proxy for it, unlike
 * `fetch`.
 *
 * Source: golang.org/x/net/http/httpproxy/proxy.go `useProxy`.
 */
function isLoopback(server: string): boolean {
  const { hostname } = new URL(server);
  return hostname === "localhost" || hostname === "[::1]" ||
    /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

/**
 * Matches `fetch`'s errors for servers that Go and Node's HTTP accept: a server whose
 * own certificate is the trusted authority, as on many servers that were set up by
 * hand, and a server at a port of a different protocol, such as 6000.
 */
const IS_REFUSED = /CaUsedAsEndEntity|Requests to port \d+ are blocked/;

/** A transport by `fetch`, or by Node if `fetch` refuses the server. */
class FetchTransport implements Transport {
  readonly #client: Deno.HttpClient;
  readonly #loadOther: () => Promise<Transport>;
  #other: Promise<Transport> | undefined;

  constructor(access: Access, certificate: ClientCertificate | undefined) {
    const { caCerts, proxyUrl } = access;
    this.#client = Deno.createHttpClient({
      caCerts: [...caCerts],
      // HTTP/2 sends a body after its headers. With Nagle's algorithm it waits
      // 40 ms for the server's acknowledgement (denoland/deno#35581).
      http2: false,
      ...certificate,
      ...proxyUrl === undefined ? {} : { proxy: describeProxy(proxyUrl) },
    });
    this.#loadOther = async () => (await loadNode(access))(access, certificate);
  }

  async send(request: HttpRequest, signal: AbortSignal): Promise<HttpAnswer> {
    if (this.#other === undefined) {
      try {
        return await this.#fetch(request, signal);
      } catch (error) {
        if (!IS_REFUSED.test(describeError(error))) throw error;
        this.#other ??= this.#loadOther();
      }
    }
    return await (await this.#other).send(request, signal);
  }

  #fetch(
    { url, method, headers, body }: HttpRequest,
    signal: AbortSignal,
  ): Promise<HttpAnswer> {
    return fetch(url, {
      method,
      // A list, because `Headers` would join headers of the same name.
      headers: headers.map(([name, value]) => [name, value]),
      ...body === undefined ? {} : { body },
      client: this.#client,
      redirect: "manual",
      signal,
    });
  }

  [Symbol.dispose](): void {
    this.#client[Symbol.dispose]();
    this.#other?.then((other) => other[Symbol.dispose](), () => {});
  }
}

/** Splits off the user name and the password, which Deno expects separately. */
function describeProxy(proxyUrl: string): Deno.Proxy {
  const url = new URL(proxyUrl);
  const { username, password } = url;
  url.username = url.password = "";
  if (!username && !password) return { url: url.href };
  const basicAuth = {
    username: decodeURIComponent(username),
    password: decodeURIComponent(password),
  };
  return { url: url.href, basicAuth };
}
