/**
 * A transport by `fetch`, with its own connections.
 *
 * @module
 */

import type { Access, ClientCertificate } from "./access.ts";
import type { HttpAnswer, HttpRequest, Transport } from "./transport.ts";

/**
 * Opens a transport without connecting.
 *
 * @throws {Error} If certificates or keys are invalid
 */
export function openFetchTransport(
  { caCerts, proxyUrl }: Access,
  certificate: ClientCertificate | undefined,
): Transport {
  return new FetchTransport(Deno.createHttpClient({
    caCerts: [...caCerts],
    // Deno leaves Nagle's algorithm on. HTTP/2 sends a body after its headers,
    // which then waits for the server's delayed acknowledgement: 40 ms.
    http2: false,
    ...certificate,
    ...proxyUrl === undefined ? {} : { proxy: describeProxy(proxyUrl) },
  }));
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

class FetchTransport implements Transport {
  readonly #client: Deno.HttpClient;

  constructor(client: Deno.HttpClient) {
    this.#client = client;
  }

  send(request: HttpRequest, signal: AbortSignal): Promise<HttpAnswer> {
    const { url, method, headers, body } = request;
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
  }
}
