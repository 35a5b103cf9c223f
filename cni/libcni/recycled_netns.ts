/**
 * Paths of namespaces that have come to lead to the host's.
 *
 * @module
 */

import { isNetnsOverridden } from "../args.ts";
import { isOwnNetns } from "../own_netns.ts";
import type { RuntimeConf } from "./runtime_conf.ts";
import type { Tools } from "./tools.ts";

/**
 * Returns an attachment without its namespace if that is the runtime's own by
 * now, and says so: a path like /proc/PID/ns/net, whose process has ended, leads
 * there when another on the host gets its PID. What a plugin deleted by name
 * would be the host's.
 *
 * With CNI_NETNS_OVERRIDE the sandbox may be that namespace, and stays.
 *
 * @throws {CniError} 8 if the runtime's own namespace cannot be read
 */
export function dropRecycledNetns(
  { env, hostNetns, log }: Pick<Tools, "env" | "hostNetns" | "log">,
  conf: RuntimeConf,
): RuntimeConf {
  const { netns, containerId, ifName } = conf;
  const netnsOverride = isNetnsOverridden(env);
  if (!isOwnNetns({ netns, netnsOverride }, hostNetns)) return conf;
  log.warn("Deleting without the namespace, whose path leads to the host's", {
    containerId,
    ifName,
    netns,
  });
  return { ...conf, netns: "" };
}
