/**
 * The service account of the pod that installs, as the kubelet mounts it, and
 * the API server, as the kubelet names it.
 *
 * @module
 */

import { join } from "@std/path/posix";
import type { Environment } from "../../../cni/args.ts";
import { CniError, ErrorCode } from "../../../cni/error.ts";
import { withIoFailure } from "../../../cni/io_failure.ts";
import { findServer } from "../../../kube/service_environment.ts";
import { readIfThere } from "./placed_file.ts";

/**
 * Reads the token by which multus shows who it is.
 *
 * @param folder Where the service account is mounted
 * @returns Undefined if there is none
 * @throws {CniError} 5 if it cannot be read, or is empty
 */
export function readToken(folder: string): string | undefined {
  const path = join(folder, "token");
  const token = readIfThere(path)?.trim();
  if (token !== "") return token;
  throw new CniError(ErrorCode.IoFailure, `Cannot use "${path}": it is empty`);
}

/**
 * Reads the certificates by which the API server is known.
 *
 * @param folder Where the service account is mounted
 * @returns PEM
 * @throws {CniError} 5 if they cannot be read
 */
export function readCaBundle(folder: string): Uint8Array {
  const path = join(folder, "ca.crt");
  return withIoFailure(`read "${path}"`, () => Deno.readFileSync(path));
}

/**
 * Returns the API server's URL, by the protocol that the environment may name.
 *
 * @throws {CniError} 4 if the environment does not say it
 */
export function formatServer(env: Environment): string {
  const protocol = env["KUBERNETES_SERVICE_PROTOCOL"] || "https";
  const server = findServer(env, protocol);
  if (server !== undefined) return server;
  throw new CniError(
    ErrorCode.InvalidEnvironment,
    "Cannot tell where the API server is: KUBERNETES_SERVICE_HOST or " +
      "KUBERNETES_SERVICE_PORT is not set",
  );
}
