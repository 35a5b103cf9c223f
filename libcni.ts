/**
 * The runtime's side of CNI: {@linkcode NetworkRuntime} loads network
 * configurations, runs their plugins in order, as processes or in this process, and
 * records attachments. It is compatible with the Go library, and uses the same
 * files. {@linkcode NodeNetwork} does this for the pods of a node.
 * {@linkcode registry} lists the plugins of this project.
 *
 * ```ts
 * import type { Result } from "@cni/plugins";
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

export * from "./libcni/mod.ts";

// Pods on a node.
export * from "./node/mod.ts";

// Runs plugins: as processes, or this project's plugins in this process.
export { execInvoker } from "./cni/invoke/exec_invoker.ts";
export { createInvoker, type InvokerOptions } from "./cni/invoke/in_process.ts";
export {
  findPlugin,
  type PluginLoader,
  pluginNames,
  registry,
} from "./plugins/registry.ts";

// Makes a daemon of a plugin.
export {
  type CniServer,
  serveCni,
  type ServeOptions,
} from "./daemon/serve_cni.ts";
