/**
 * The way of a request to the server, and of its answer back.
 *
 * @module
 */

import type { Environment } from "../cni/args.ts";
import type { Access, ClientCertificate, Header } from "./access.ts";
import { openFetchTransport } from "./fetch_transport.ts";
import { SelfSignedTransport } from "./self_signed_transport.ts";
import { TlsTransport } from "./tls_transport.ts";

/** A request in the words of HTTP. */
export interface HttpRequest {
  readonly method: string;
  readonly url: string;
  /** A name may come more than once. */
  readonly headers: readonly Header[];
  readonly body?: string;
}

/** An answer; a `Response` is one. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  readonly body: ReadableStream<Uint8Array> | null;
}

/** Connections to one server. */
export interface Transport extends Disposable {
  /**
   * Sends a request.
   *
   * @param signal Gives it up, the reading of its answer included
   * @throws {Error} If there is no answer
   */
  send(request: HttpRequest, signal: AbortSignal): Promise<HttpAnswer>;
}

/**
 * Opens a transport; nothing is connected yet.
 *
 * @throws {Error} If certificates or keys are not what they should be
 */
export type OpenTransport = (
  access: Access,
  certificate: ClientCertificate | undefined,
) => Transport;

/**
 * Loads a transport that gets there.
 *
 * `fetch` can neither go without checking the server's certificate, nor expect
 * another name in it than the URL has, nor leave out a proxy that the
 * environment names. Node's HTTPS can, and takes some 50 ms to be loaded.
 *
 * @param env The environment of this process
 */
export async function loadTransport(
  access: Access,
  env: Environment,
): Promise<OpenTransport> {
  const isPlain = !access.isInsecure && access.tlsServerName === undefined &&
    !isWronglyProxied(access, env);
  if (!isPlain) return await loadNode(access);
  return (access, certificate) =>
    new SelfSignedTransport(
      needsFetch(access, certificate, env)
        ? openFetchTransport(access, certificate)
        : new TlsTransport(access),
      async () => (await loadNode(access))(access, certificate),
    );
}

/** Says whether connections of our own would not do. */
function needsFetch(
  { server, proxyUrl }: Access,
  certificate: ClientCertificate | undefined,
  env: Environment,
): boolean {
  return !server.startsWith("https:") || certificate !== undefined ||
    proxyUrl !== undefined || namesProxy(env);
}

async function loadNode({ server }: Access): Promise<OpenTransport> {
  const { loadNodeTransport } = await import("./node_transport.ts");
  return await loadNodeTransport(server);
}

/** Where `fetch` looks for a proxy. */
const PROXIES = ["https_proxy", "http_proxy", "all_proxy"];

/**
 * Says whether `fetch` would use a proxy that Go would not: the environment's,
 * to get to where we are.
 *
 * Source: golang.org/x/net/http/httpproxy/proxy.go `useProxy`.
 */
function isWronglyProxied(
  { server, proxyUrl }: Access,
  env: Environment,
): boolean {
  if (proxyUrl !== undefined || !isLoopback(server)) return false;
  return namesProxy(env);
}

function namesProxy(env: Environment): boolean {
  return PROXIES.some((name) => env[name] || env[name.toUpperCase()]);
}

function isLoopback(server: string): boolean {
  const { hostname } = new URL(server);
  return hostname === "localhost" || hostname === "[::1]" ||
    /^127\.\d+\.\d+\.\d+$/.test(hostname);
}
