/**
 * Reads kubeconfig files.
 *
 * Source: client-go tools/clientcmd/client_config.go, loader.go.
 *
 * @module
 */

import { dirname, resolve } from "@std/path/posix";
import type { Environment } from "../base/process/environment.ts";
import { decode, omitAbsent } from "../base/json/json.ts";
import type { Access } from "./access.ts";
import {
  type ClusterEntry,
  type Kubeconfig,
  kubeconfigSchema,
  type UserEntry,
} from "./kubeconfig_schema.ts";
import { type Origin, readPem, unusable } from "./referenced_value.ts";
import { openCredentials, readImpersonation } from "./user.ts";

/**
 * Reads the current context of a kubeconfig. Paths in it are relative to its
 * directory.
 *
 * @param env Environment of a program that provides credentials
 * @throws {CniError} 7 if it, or a file that it names, is unusable
 */
export async function readKubeconfig(
  path: string,
  env: Environment,
): Promise<Access> {
  const origin = originOf(path);
  const { cluster, user } = getCurrent(origin, await load(origin, path));
  return {
    ...readCluster(origin, cluster),
    impersonation: readImpersonation(origin, user),
    credentials: await openCredentials(origin, { user, cluster, env }),
  };
}

/**
 * Reads the namespace of the current context of a kubeconfig.
 *
 * @returns "" if the context has none
 * @throws {CniError} 7 if the file is unusable, or has no such context
 */
export async function readNamespace(path: string): Promise<string> {
  const origin = originOf(path);
  const config = await load(origin, path);
  const name = config["current-context"] ?? "";
  const { context } = getNamed(origin, "context", config.contexts, name);
  return context.namespace ?? "";
}

function originOf(path: string): Origin {
  return { what: `kubeconfig "${path}"`, directory: dirname(resolve(path)) };
}

async function load(origin: Origin, path: string): Promise<Kubeconfig> {
  const document = await parse(origin, read(origin, path));
  return decode(kubeconfigSchema(), document ?? {}, origin.what);
}

function read(origin: Origin, path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    throw unusable(origin, "it cannot be read", error);
  }
}

/** Parses JSON, or else YAML; only YAML loads its library. */
async function parse(origin: Origin, text: string): Promise<unknown> {
  try {
    return JSON.parse(text);
  } catch {
    const { parseYaml } = await import("./yaml.ts");
    return parseYaml(text, origin.what);
  }
}

function getCurrent(
  origin: Origin,
  config: Kubeconfig,
): { cluster: ClusterEntry; user: UserEntry } {
  const name = config["current-context"];
  if (!name) throw unusable(origin, "current-context: missing");
  const { context } = getNamed(origin, "context", config.contexts, name);
  const { cluster } = getNamed(
    origin,
    "cluster",
    config.clusters,
    context.cluster ?? "",
  );
  if (!context.user) return { cluster, user: {} };
  const { user } = getNamed(origin, "user", config.users, context.user);
  return { cluster, user };
}

function getNamed<T extends { readonly name: string }>(
  origin: Origin,
  kind: string,
  entries: readonly T[] | undefined,
  name: string,
): T {
  const found = entries?.find((entry) => entry.name === name);
  if (found !== undefined) return found;
  throw unusable(origin, `${kind}s: there is no ${kind} "${name}"`);
}

function readCluster(
  origin: Origin,
  cluster: ClusterEntry,
): Omit<Access, "impersonation" | "credentials"> {
  const isInsecure = cluster["insecure-skip-tls-verify"] ?? false;
  const ca = readPem(origin, {
    key: "certificate-authority",
    file: cluster["certificate-authority"],
    data: cluster["certificate-authority-data"],
  }, "CERTIFICATE");
  if (isInsecure && ca !== undefined) {
    // Both the wording and the refusal follow client-go.
    throw unusable(
      origin,
      "specifying a root certificates file with the insecure flag is not allowed",
    );
  }
  return {
    origin: origin.what,
    server: checkServer(origin, cluster.server ?? ""),
    caCerts: ca === undefined ? [] : [ca],
    isInsecure,
    ...omitAbsent({
      tlsServerName: cluster["tls-server-name"] || undefined,
      proxyUrl: checkProxy(origin, cluster["proxy-url"] || undefined),
    }),
  };
}

/** Checks the URL of an API server, to which paths are appended. */
function checkServer(origin: Origin, server: string): string {
  if (server === "") throw unusable(origin, "server: missing");
  const full = /^[a-z]+:\/\//i.test(server) ? server : `https://${server}`;
  const url = URL.parse(full);
  if (url === null || !["https:", "http:"].includes(url.protocol)) {
    throw unusable(origin, `server: "${server}" is not an http or https URL`);
  }
  if (url.username || url.password || url.search || url.hash) {
    throw unusable(
      origin,
      "server: only a host, a port and a path are allowed",
    );
  }
  return full.replace(/\/+$/, "");
}

/** Checks the URL of a proxy, which may contain a password. */
function checkProxy(
  origin: Origin,
  proxy: string | undefined,
): string | undefined {
  if (proxy === undefined) return undefined;
  const scheme = URL.parse(proxy)?.protocol ?? "";
  if (/^(https?|socks5h?):$/.test(scheme)) return proxy;
  throw unusable(
    origin,
    "proxy-url: it is not the URL of an http or socks5 proxy",
  );
}
