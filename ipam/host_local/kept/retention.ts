/**
 * How long the addresses of a network are kept without a container, by the keys `stay`
 * and `stayTime`.
 *
 * @module
 */

import { CniError, ErrorCode, invalidConfig } from "../../../base/error.ts";
import { ifPossible } from "../../../base/files/io.ts";
import { parseArgs } from "../../../cni/call/args.ts";
import type { Call } from "../../../cni/plugin.ts";
import type { PodName } from "../lease.ts";
import type { HostLocalConfig } from "../schema.ts";

/** For how long, and for which pod, addresses are kept. */
export interface Retention {
  /** How long a name keeps an unused address, in ms; 0 if it does not. */
  readonly persistentMs: number;
  /** The name of the call's pod; undefined if it is unknown. */
  readonly name?: PodName | undefined;
}

/** The retention for callers without a configuration: names keep what they have. */
export const UNLIMITED: Retention = { persistentMs: Infinity };

/**
 * Reads the retention for ADD.
 *
 * @throws {CniError} 7 if `stay` lacks `stayTime`, 4 if addresses are persistent and
 *   the pod is unknown
 */
export function retentionOf(call: RetainingCall): Retention {
  const persistentMs = persistentMsOf(call.config);
  return persistentMs === 0
    ? { persistentMs }
    : { persistentMs, name: podNameOf(call) };
}

/**
 * Reads the retention for DEL and GC, which must work with any configuration: without
 * `stayTime`, nothing expires. Never throws.
 */
export function findRetention(call: RetainingCall): Retention {
  const persistentMs = ifPossible(() => persistentMsOf(call.config)) ??
    Infinity;
  return persistentMs === 0
    ? { persistentMs }
    : { persistentMs, name: ifPossible(() => podNameOf(call)) };
}

type RetainingCall = Pick<Call<HostLocalConfig>, "args" | "config">;

/**
 * Returns how long a name keeps an unused address, in milliseconds; 0 if addresses
 * are not persistent.
 *
 * @throws {CniError} 7 if the time is missing
 */
export function persistentMsOf({ ipam }: HostLocalConfig): number {
  if (ipam?.stay !== "name") return 0;
  if (ipam.stayTime !== undefined) return ipam.stayTime;
  throw invalidConfig(
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
function podNameOf({ args }: Pick<Call, "args">): PodName {
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
