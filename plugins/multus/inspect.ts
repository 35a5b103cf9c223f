/**
 * What tools may ask about multus.
 *
 * @module
 */

import { toCniError } from "../../base/error.ts";

export {
  MULTUS_LOG_LEVELS,
  type MultusLogLevel,
} from "./operations/operation_log.ts";

/**
 * Describes what is wrong with the value of the annotation
 * `k8s.v1.cni.cncf.io/networks`; undefined if nothing is.
 *
 * @param namespace The pod's
 */
export async function findNetworksProblem(
  networks: string,
  namespace: string,
): Promise<string | undefined> {
  const { parseNetworks } = await import("./select/annotations.ts");
  try {
    parseNetworks(networks, namespace);
    return undefined;
  } catch (error) {
    return toCniError(error).message;
  }
}
