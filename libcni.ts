/**
 * The runtime's side of CNI: loads network configurations, runs their plugins
 * in order, as processes or in this one, and remembers what is attached. It
 * does what the Go library does, on the same files.
 *
 * ```ts
 * import type { Result } from "@cni/plugins/plugin";
 * import { findNetworkConfList, NetworkRuntime } from "@cni/plugins/libcni";
 *
 * async function attach(containerId: string, netns: string): Promise<Result> {
 *   const runtime = new NetworkRuntime({
 *     pluginDirs: ["/opt/cni/bin"],
 *     env: Deno.env.toObject(),
 *   });
 *   const list = findNetworkConfList("/etc/cni/net.d", "pods");
 *   const conf = { containerId, netns, ifName: "eth0" };
 *   const signal = AbortSignal.timeout(60_000);
 *   return (await runtime.addNetworkListOrUndo(list, conf, { signal })).result;
 * }
 * ```
 *
 * @module
 */

export * from "./cni/libcni/mod.ts";

// How plugins are run: as processes, or those of this project in this one.
export { execInvoker } from "./cni/invoke/exec_invoker.ts";
export { createInvoker } from "./cni/invoke/in_process.ts";
export {
  findPlugin,
  type PluginLoader,
  pluginNames,
  registry,
} from "./plugins/registry.ts";
