/**
 * Finds the API server from within a pod.
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
import { findServer } from "./service_environment.ts";

/** Folder of a pod's service account. */
const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * Returns how a pod reaches its API server.
 *
 * @param folder Folder of the service account
 * @returns Undefined if the environment is not a pod's
 * @throws {CniError} 7 if the service account's files are unusable
 */
export function readInCluster(
  env: Environment,
  folder: string = SERVICE_ACCOUNT,
): Access | undefined {
  const server = findServer(env);
  if (server === undefined) return undefined;
  const origin = { what: "the pod's service account", folder };
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
