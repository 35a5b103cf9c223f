/**
 * The plugins of the multi-call executable, which are loaded on demand.
 *
 * @module
 */

import { CniError, ErrorCode } from "../cni/error.ts";
import type { Plugin } from "../cni/plugin.ts";
import { listVersionsFrom, type SpecVersion } from "../cni/version.ts";

/** Loads a plugin. */
export type PluginLoader = () => Promise<Plugin>;

/** Loaders by plugin type, which is also the executable's name. */
export const registry: Readonly<Record<string, PluginLoader>> = {
  "bandwidth": async () => (await import("./bandwidth/plugin.ts")).bandwidth,
  "bridge": async () => (await import("./bridge/plugin.ts")).bridge,
  "chain": async () => (await import("./chain/plugin.ts")).chain,
  "contivk8s": async () => (await import("./contivk8s/plugin.ts")).contivk8s,
  "debug": async () => (await import("./debug/plugin.ts")).debug,
  "dhcp": async () => (await import("../ipam/dhcp/plugin.ts")).dhcp,
  "dummy": async () => (await import("./dummy/plugin.ts")).dummy,
  "firewall": async () => (await import("./firewall/plugin.ts")).firewall,
  "flannel": async () => (await import("./flannel/plugin.ts")).flannel,
  "host-device": async () =>
    (await import("./host_device/plugin.ts")).hostDevice,
  "host-local": async () =>
    (await import("../ipam/host_local/plugin.ts")).hostLocal,
  "ipvlan": async () => (await import("./ipvlan/plugin.ts")).ipvlan,
  "loopback": async () => (await import("./loopback/plugin.ts")).loopback,
  "macvlan": async () => (await import("./macvlan/plugin.ts")).macvlan,
  "multus": async () => (await import("./multus/plugin.ts")).multus,
  "passthru": async () => (await import("./passthru/plugin.ts")).passthru,
  "portmap": async () => (await import("./portmap/plugin.ts")).portmap,
  "ptp": async () => (await import("./ptp/plugin.ts")).ptp,
  "remote": async () => (await import("./remote/plugin.ts")).remote,
  "sbr": async () => (await import("./sbr/plugin.ts")).sbr,
  "static": async () => (await import("../ipam/static/plugin.ts")).staticIpam,
  "tap": async () => (await import("./tap/plugin.ts")).tap,
  "tuning": async () => (await import("./tuning/plugin.ts")).tuning,
  "vlan": async () => (await import("./vlan/plugin.ts")).vlan,
  "vrf": async () => (await import("./vrf/plugin.ts")).vrf,
  "whereabouts": async () =>
    (await import("../ipam/whereabouts/plugin.ts")).whereabouts,
};

/**
 * The first supported version of the specification, for plugins that do not
 * support the oldest one.
 */
const servedSince: Readonly<Record<string, SpecVersion>> = {
  "bandwidth": "0.3.0",
  "firewall": "0.4.0",
  "passthru": "0.3.0",
  "vrf": "0.3.1",
};

/** The plugins' types. */
export const pluginNames: readonly string[] = Object.keys(registry);

/**
 * Programs of the multi-call executable that do not follow the plugin
 * interface, so they can only run as processes; `main.ts` has their loaders.
 */
export const programNames = ["noop", "cni", "cnitool", "multus-shim"] as const;

/** One of {@linkcode programNames}. */
export type ProgramName = typeof programNames[number];

/** Returns the error for an unknown name of the executable. */
export function unknownName(name: string): CniError {
  const names = [...pluginNames, ...programNames];
  return new CniError(
    ErrorCode.InvalidEnvironment,
    `no plugin is named "${name}"`,
    { details: `call this executable as one of: ${names.join(", ")}` },
  );
}

/** Loads one of our plugins; returns undefined for an unknown type. */
export function findPlugin(type: string): Promise<Plugin> | undefined {
  return Object.hasOwn(registry, type) ? registry[type]?.() : undefined;
}

/**
 * Lists the versions that one of our plugins supports, without loading it,
 * which would take longer than the rest of VERSION. Returns undefined for an
 * unknown type.
 */
export function findVersions(type: string): readonly string[] | undefined {
  return Object.hasOwn(registry, type)
    ? listVersionsFrom(servedSince[type] ?? "0.1.0")
    : undefined;
}
