/**
 * The plugins that a configuration names.
 *
 * @module
 */

import { findValue, isObject } from "../../base/json/json.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";

/**
 * Lists the types of all plugins in a configuration, including IPAM plugins and
 * delegates.
 */
export function listTypes(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(listTypes);
  if (!isObject(value)) return [];
  const type = findValue(value, "type");
  return [
    ...typeof type === "string" ? [type] : [],
    ...typeof type === "string" ? listDefaults(type, value) : [],
    ...Object.values(value).flatMap(listTypes),
  ];
}

/** Lists the plugins that a plugin runs by default, without `type` in its configuration. */
function listDefaults(type: string, value: Record<string, unknown>): string[] {
  const { runs } = METADATA.get(type) ?? {};
  const hasType = (part: unknown): boolean =>
    isObject(part) && Boolean(findValue(part, "type"));
  return [
    ...runs?.type && !hasType(findValue(value, runs.key ?? ""))
      ? [runs.type]
      : [],
    ...runs?.ipamType && !hasType(findValue(value, "ipam"))
      ? [runs.ipamType]
      : [],
  ];
}
