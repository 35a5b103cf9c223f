/**
 * Finds the API server by the variables that the kubelet sets in each
 * container.
 *
 * @module
 */

import type { Environment } from "../cni/args.ts";

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
