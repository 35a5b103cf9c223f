/**
 * Finds the API server from within a pod.
 *
 * Source: client-go rest/config.go `InClusterConfig`.
 *
 * @module
 */

import type { Environment } from "../base/process/environment.ts";
import type { Access } from "./access.ts";
import { bearer, FileCredentials } from "./credentials.ts";
import {
  checkToken,
  type Origin,
  readNamedFile,
  readPem,
} from "./referenced_value.ts";

/** Directory of a pod's service account; CNI_SERVICE_ACCOUNT replaces it. */
const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * Returns how a pod reaches its API server.
 *
 * @param directory Directory of the service account
 * @returns Undefined if the environment is not a pod's
 * @throws {CniError} 7 if the service account's files are unusable
 */
export function readInCluster(
  env: Environment,
  directory: string = env["CNI_SERVICE_ACCOUNT"] ?? SERVICE_ACCOUNT,
): Access | undefined {
  const server = findServer(env);
  if (server === undefined) return undefined;
  const origin = { what: "the pod's service account", directory };
  const ca = readPem(origin, { key: "ca.crt", file: "ca.crt" }, "CERTIFICATE");
  return {
    origin: origin.what,
    server,
    caCerts: ca === undefined ? [] : [ca],
    isInsecure: false,
    impersonation: [],
    credentials: new FileCredentials(() => ({
      authorization: bearer(readToken(origin)),
    })),
  };
}

function readToken(origin: Origin): string {
  const key = "token";
  return checkToken(origin, key, readNamedFile(origin, key, "token"));
}

/**
 * Builds the API server's URL.
 *
 * Source: client-go rest/config.go `InClusterConfig`; for the brackets, Go net
 * `JoinHostPort` and multus-cni cmd/thin_entrypoint/main.go, where the host may
 * already have them.
 *
 * @param protocol Without the colon
 * @returns Undefined if the environment is not a pod's
 */
export function findServer(
  env: Environment,
  protocol = "https",
): string | undefined {
  const host = env["KUBERNETES_SERVICE_HOST"];
  const port = env["KUBERNETES_SERVICE_PORT"];
  if (!host || !port) return undefined;
  const isBare = host.includes(":") && !host.startsWith("[");
  return `${protocol}://${isBare ? `[${host}]` : host}:${port}`;
}
