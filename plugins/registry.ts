/**
 * The plugins of the multi-call executable, which are loaded on demand.
 *
 * @module
 */

import { CniError, ErrorCode } from "../base/error.ts";
import type { Plugin } from "../cni/plugin.ts";
import { listVersionsFrom } from "../cni/version.ts";
import { LOADERS, SERVED_SINCE } from "./lists/loaders.ts";

/** Loads a plugin. */
export type PluginLoader = () => Promise<Plugin>;

export { LOADERS as registry };

/** The plugins' types. */
export const pluginNames: readonly string[] = Object.keys(LOADERS);

/**
 * Programs of the multi-call executable that do not follow the plugin interface, so
 * they can only run as processes; `main.ts` contains their loaders.
 */
export const programNames = ["noop", "cni", "cnitool", "multus-shim"] as const;

/** One of {@linkcode programNames}. */
export type ProgramName = typeof programNames[number];

/**
 * Returns the error for an unknown name of the executable.
 *
 * @param parts Plugins whose names are parts of it
 */
export function unknownName(
  name: string,
  parts: readonly string[] = [],
): CniError {
  const names = [...pluginNames, ...programNames];
  return new CniError(
    ErrorCode.InvalidEnvironment,
    `no plugin is named "${name}"`,
    {
      details: parts.length > 0
        ? `it contains the names of ${parts.join(" and ")}; use one of them`
        : `call this executable as one of: ${names.join(", ")}; or under ` +
          "a name that contains one of them, such as bridge.bin",
    },
  );
}

/** Loads a plugin of this project; returns undefined for an unknown type. */
export function findPlugin(type: string): Promise<Plugin> | undefined {
  return Object.hasOwn(LOADERS, type) ? LOADERS[type]?.() : undefined;
}

/**
 * Lists the versions that a plugin of this project supports, without loading the
 * plugin, which would take longer than the rest of VERSION. Returns undefined for an
 * unknown type.
 */
export function findVersions(type: string): readonly string[] | undefined {
  return Object.hasOwn(LOADERS, type)
    ? listVersionsFrom(SERVED_SINCE[type] ?? "0.1.0")
    : undefined;
}
