/**
 * Namespace paths that now lead to the host's namespace.
 *
 * @module
 */

import { isNetnsOverridden } from "../cni/call/args.ts";
import { isOwnNetns } from "../cni/call/own_netns.ts";
import type { RuntimeConf } from "./runtime_conf.ts";
import type { PluginTools } from "./tools.ts";

/**
 * Returns an attachment without its namespace, and logs that, if the path now
 * leads to the runtime's own namespace. This happens to a path like
 * /proc/PID/ns/net when the process has ended and another one on the host gets
 * its PID. Plugins would then delete the host's links by name.
 *
 * With CNI_NETNS_OVERRIDE, that namespace is allowed.
 *
 * @throws {CniError} 8 if the runtime's own namespace cannot be read
 */
export function dropRecycledNetns(
  { context, log }: Pick<PluginTools, "context" | "log">,
  conf: RuntimeConf,
): RuntimeConf {
  const { netns, containerId, ifName } = conf;
  const { env, hostNetns } = context;
  const netnsOverride = isNetnsOverridden(env);
  if (!isOwnNetns({ netns, netnsOverride }, hostNetns)) return conf;
  log.warn("Deleting without the namespace: its path now leads to the host's", {
    containerId,
    ifName,
    netns,
  });
  return { ...conf, netns: "" };
}
