/**
 * CNI plugins and their building blocks as a library, for any program:
 *
 * - a plugin: {@linkcode definePlugin}, {@linkcode runMain},
 *   {@linkcode dispatch}
 * - a container runtime: {@linkcode NetworkRuntime}, which runs the plugins of
 *   network configurations, and {@linkcode NodeNetwork}, which does this for
 *   the pods of a node
 * - the plugins of this project: {@linkcode registry}
 *
 * ```ts
 * import { NodeNetwork } from "@cni/plugins";
 *
 * const network = new NodeNetwork({
 *   confDir: "/etc/cni/net.d",
 *   pluginDirs: ["/opt/cni/bin"],
 *   env: Deno.env.toObject(),
 * });
 * ```
 *
 * The parts are separate entry points, because a program that starts for each
 * call should only load what it needs. To write a plugin, use
 * `@cni/plugins/plugin` and `@cni/plugins/kernel` (links, addresses, routes,
 * namespaces); to test it, use `@cni/plugins/testing`. `@cni/plugins/libcni` is
 * the runtime library alone.
 *
 * @module
 */

export * from "./plugin.ts";
export * from "./libcni.ts";
export * from "./runtime/mod.ts";
