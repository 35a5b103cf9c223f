/**
 * Reads the installing pod's service account, which the kubelet mounts, and the
 * API server's address, which the kubelet sets in the environment.
 *
 * @module
 */

import { join } from "@std/path/posix";
import type { Environment } from "../../../cni/args.ts";
import { CniError, ErrorCode } from "../../../cni/error.ts";
import { withIoFailure } from "../../../cni/files/io.ts";
import { findServer } from "../../../kube/in_cluster.ts";
import { readIfThere } from "./placed_file.ts";

/**
 * Reads the token that authenticates multus.
 *
 * @param folder Mount point of the service account
 * @returns Undefined if it does not exist
 * @throws {CniError} 5 if it cannot be read, or is empty
 */
export function readToken(folder: string): string | undefined {
  const path = join(folder, "token");
  const token = readIfThere(path)?.trim();
  if (token !== "") return token;
  throw new CniError(ErrorCode.IoFailure, `Cannot use "${path}": it is empty`);
}

/**
 * Reads the authorities that sign the API server's certificate.
 *
 * @param folder Mount point of the service account
 * @returns PEM
 * @throws {CniError} 5 if they cannot be read
 */
export function readCaBundle(folder: string): Uint8Array {
  const path = join(folder, "ca.crt");
  return withIoFailure(`read "${path}"`, () => Deno.readFileSync(path));
}

/**
 * Returns the API server's URL; the environment may set the protocol.
 *
 * @throws {CniError} 4 if the environment does not have the address
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
