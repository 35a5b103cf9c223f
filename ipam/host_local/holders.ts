/**
 * Leases that stay: of the name of a pod instead of a container.
 *
 * Such a lease is a symbolic link to `stay/<namespace>/<pod>/<interface>`, which
 * does not exist. To the Go plugin, the address is taken, because its name is
 * there; no DEL of a container ends the lease, because nothing can be read; and
 * GC looks at regular files only. When the link was made, its time began.
 *
 * @module
 */

import { parseArgs } from "../../cni/call/args.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import type { Call } from "../../cni/plugin.ts";
import type { HostLocalConfig } from "./schema.ts";

/** The interface of a pod, by name. */
export interface Holder {
  readonly namespace: string;
  readonly pod: string;
  readonly ifName: string;
}

/** Formats the content of a lease that stays: where its link leads. */
export function formatHolder({ namespace, pod, ifName }: Holder): string {
  return `stay/${namespace}/${pod}/${ifName}`;
}

/**
 * Parses the content of a lease; undefined if it is a container's. Before leases
 * that stay were links, the interface was in a second line.
 */
export function findHolder(content: string): Holder | undefined {
  const [, namespace, pod, ifName] =
    /^stay\/([^/]*)\/([^/]*)(?:\/|\r\n)([^/]*)$/.exec(content) ?? [];
  return namespace === undefined || pod === undefined || ifName === undefined
    ? undefined
    : { namespace, pod, ifName };
}

/** Returns what a lease's file has, as it is written by now. */
export function normalizeContent(content: string): string {
  const holder = findHolder(content);
  return holder === undefined ? content : formatHolder(holder);
}

/** Reports whether the leases of a network stay. */
export function isStaying({ ipam }: HostLocalConfig): boolean {
  return ipam?.stay === "name";
}

/**
 * Returns how long leases stay, in milliseconds; 0 if they do not.
 *
 * @throws {CniError} 7 if the time is missing
 */
export function stayTimeOf(config: HostLocalConfig): number {
  if (!isStaying(config)) return 0;
  const { stayTime } = config.ipam ?? {};
  if (stayTime !== undefined) return stayTime;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    '"stay" needs "stayTime": how long a name keeps its address',
  );
}

/** Names that become part of paths. Namespaces have up to 63 characters. */
const NAMESPACE = /^[a-z\d][-a-z\d.]{0,62}$/i, POD = /^[a-z\d][-\w.]{0,252}$/i;

/**
 * Finds the name of the pod in CNI_ARGS.
 *
 * @throws {CniError} 4 if it is missing or malformed
 */
export function holderOf({ args }: Pick<Call, "args">): Holder {
  const found = parseArgs(args.args);
  const namespace = found.get("K8S_POD_NAMESPACE") ?? "";
  const pod = found.get("K8S_POD_NAME") ?? "";
  if (NAMESPACE.test(namespace) && POD.test(pod)) {
    return { namespace, pod, ifName: args.ifName };
  }
  throw new CniError(
    ErrorCode.InvalidEnvironment,
    '"stay" needs the name of a pod: K8S_POD_NAMESPACE and K8S_POD_NAME in ' +
      "CNI_ARGS",
    { details: `they are "${namespace}" and "${pod}"` },
  );
}
