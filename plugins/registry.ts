/**
 * Every plugin of the multi-call executable, loaded when it is called.
 *
 * @module
 */

import type { Plugin } from "../cni/plugin.ts";

/** Loads a plugin. */
export type PluginLoader = () => Promise<Plugin>;

/** Loaders by type, which is also the executable's name. */
export const registry: Readonly<Record<string, PluginLoader>> = {
  "host-local": async () =>
    (await import("../ipam/host_local/plugin.ts")).hostLocal,
  "ptp": async () => (await import("./ptp/plugin.ts")).ptp,
};

/** The plugins' types. */
export const pluginNames: readonly string[] = Object.keys(registry);

/** Loads one of our plugins; undefined if there is none of that type. */
export function findPlugin(type: string): Promise<Plugin> | undefined {
  return Object.hasOwn(registry, type) ? registry[type]?.() : undefined;
}
