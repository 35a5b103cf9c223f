/**
 * The way from a pod to its API server.
 *
 * Source: client-go rest/config.go `InClusterConfig`.
 *
 * @module
 */

import type { Environment } from "../cni/args.ts";
import type { Access } from "./access.ts";
import { bearer, FileCredentials } from "./credentials.ts";
import {
  checkToken,
  type Origin,
  readNamedFile,
  readPem,
} from "./referenced_value.ts";

/** Where a pod finds its service account. */
const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * Finds out how a pod reaches its API server.
 *
 * @param folder The files of the service account
 * @returns Undefined if the environment is not that of a pod
 * @throws {CniError} 7 if it is, but the files are of no use
 */
export function readInCluster(
  env: Environment,
  folder: string = SERVICE_ACCOUNT,
): Access | undefined {
  const host = env["KUBERNETES_SERVICE_HOST"];
  const port = env["KUBERNETES_SERVICE_PORT"];
  if (!host || !port) return undefined;
  const origin = { what: "the pod's service account", folder };
  const ca = readPem(origin, { key: "ca.crt", file: "ca.crt" }, "CERTIFICATE");
  return {
    origin: origin.what,
    server: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
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
