/**
 * A client of the API server, built on `fetch`.
 *
 * @module
 */

import { KubeApi } from "./kube_api.ts";

/** The server, and the credentials. */
export interface AskerOptions {
  readonly url: string;
  readonly caPem?: string;
  /** Connects to this socket, whatever the host. */
  readonly socketPath?: string | undefined;
  /** Undefined for anonymous requests, or with a client certificate. */
  readonly token?: string;
  readonly clientCert?: { readonly cert: string; readonly key: string };
}

/** The response. */
export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // deno-lint-ignore no-explicit-any -- tests read any field
  readonly json: any;
}

/** A client with its own connections. */
export class Asker implements Disposable {
  readonly #options: AskerOptions;
  readonly #client: Deno.HttpClient;

  /** Creates a client; uses the token of a `KubeApi`. */
  constructor(options: AskerOptions) {
    const { caPem, token, socketPath } = options;
    const clientCert = token === undefined ? options.clientCert : undefined;
    this.#options = options;
    this.#client = Deno.createHttpClient({
      http2: false,
      ...(caPem === undefined ? {} : { caCerts: [caPem] }),
      ...(clientCert === undefined ? {} : clientCert),
      ...(socketPath === undefined
        ? {}
        : { proxy: { transport: "unix", path: socketPath } }),
    });
  }

  /** Sends a request. @param body Text, or a value to send as JSON */
  fetch(
    method: string,
    path: string,
    { body, headers, signal }: {
      body?: unknown;
      headers?: Record<string, string>;
      signal?: AbortSignal;
    } = {},
  ): Promise<Response> {
    const { url, token } = this.#options;
    const text = typeof body === "string" ? body : JSON.stringify(body);
    return fetch(`${url}${path}`, {
      client: this.#client,
      method,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(text === undefined ? {} : { body: text }),
      ...(signal === undefined ? {} : { signal }),
    });
  }

  /** Sends a request and reads the response. */
  async ask(
    method: string,
    path: string,
    options: Parameters<Asker["fetch"]>[2] = {},
  ): Promise<Reply> {
    const { status, headers, ...response } = await this.#read(
      await this.fetch(method, path, options),
    );
    return { status, headers, ...response };
  }

  /** Sends a merge patch. */
  patch(path: string, patch: unknown): Promise<Reply> {
    const headers = { "content-type": "application/merge-patch+json" };
    return this.ask("PATCH", path, { body: patch, headers });
  }

  /** Closes its connections. */
  [Symbol.dispose](): void {
    this.#client.close();
  }

  async #read(response: Response): Promise<Reply> {
    const { status, headers } = response;
    const text = await response.text();
    const isJson = headers.get("content-type") === "application/json";
    return { status, headers, text, json: isJson ? JSON.parse(text) : {} };
  }
}

/** A server with pod `p` and definition `net` in namespace `n`, and a client. */
export class ApiScene implements AsyncDisposable {
  readonly api: KubeApi;
  readonly asker: Asker;

  private constructor(api: KubeApi) {
    this.api = api;
    this.asker = new Asker(api);
    const metadata = { namespace: "n", name: "p", uid: "u1" };
    api.putPod({ metadata, status: { phase: "Running" } });
    api.putNad("n", "net", { type: "macvlan" }, { "a": "b" });
  }

  /** Starts it. */
  static async create(): Promise<ApiScene> {
    return new ApiScene(await KubeApi.start());
  }

  /** Stops it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.asker[Symbol.dispose]();
    await this.api[Symbol.asyncDispose]();
  }
}
