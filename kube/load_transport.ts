/**
 * Chooses the transport for a server.
 *
 * @module
 */

import type { Environment } from "../cni/args.ts";
import type { Access, ClientCertificate } from "./access.ts";
import { openFetchTransport } from "./fetch_transport.ts";
import { SelfSignedTransport } from "./self_signed_transport.ts";
import { TlsTransport } from "./tls_transport.ts";
import type { OpenTransport } from "./transport.ts";

/**
 * Loads a transport that can connect to the server.
 *
 * `fetch` cannot skip the verification of the server's certificate, cannot
 * verify a name other than the URL's, and cannot ignore the environment's
 * proxy. Node's HTTPS can, but takes about 50 ms to load.
 *
 * @param env This process's environment
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

/** Reports whether only `fetch` can reach the server. */
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

/** The variables from which `fetch` takes its proxy. */
const PROXIES = ["https_proxy", "http_proxy", "all_proxy"];

/**
 * Reports whether `fetch`, unlike Go, would use the environment's proxy for a
 * server on this machine.
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
