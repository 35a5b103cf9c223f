/**
 * CNI plugins and what they are made of, as a library, for programs of any kind:
 *
 * - a plugin: {@linkcode definePlugin}, {@linkcode runMain},
 *   {@linkcode dispatch}
 * - a container runtime: {@linkcode NetworkRuntime}, which runs the plugins of
 *   network configurations, and {@linkcode NodeNetwork}, which does so for the
 *   pods of a node
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
 * The parts are entry points of their own, since whoever starts for each call
 * should load no more than it needs: a plugin is written with
 * `@cni/plugins/plugin` and `@cni/plugins/kernel` (links, addresses, routes,
 * namespaces), and tested with `@cni/plugins/testing`; `@cni/plugins/libcni` is
 * the runtime library alone.
 *
 * @module
 */

export * from "./plugin.ts";
export * from "./libcni.ts";
export * from "./runtime/mod.ts";
