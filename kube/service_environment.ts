/**
 * Where the API server is, as the kubelet tells each container.
 *
 * @module
 */

import type { Environment } from "../cni/args.ts";

/**
 * Forms the API server's URL.
 *
 * Source: client-go rest/config.go `InClusterConfig`; of the brackets, Go net
 * `JoinHostPort`, and multus-cni cmd/thin_entrypoint/main.go, whose host may
 * have them already.
 *
 * @param protocol Without the colon
 * @returns Undefined if the environment is not that of a pod
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
