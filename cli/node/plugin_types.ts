/**
 * The plugins that a configuration names.
 *
 * @module
 */

import { isObject } from "../../base/json/json.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";

/**
 * Lists the types of all plugins in a configuration, including IPAM plugins and
 * delegates.
 */
export function listTypes(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(listTypes);
  if (!isObject(value)) return [];
  const { type } = value;
  return [
    ...typeof type === "string" ? [type] : [],
    ...typeof type === "string" ? listDefaults(type, value) : [],
    ...Object.values(value).flatMap(listTypes),
  ];
}

/** Lists the plugins that one runs if its configuration names no others. */
function listDefaults(type: string, value: Record<string, unknown>): string[] {
  const { runs } = METADATA.get(type) ?? {};
  const hasType = (part: unknown): boolean =>
    isObject(part) && Boolean(part["type"]);
  return [
    ...runs?.type && !hasType(value[runs.key ?? ""]) ? [runs.type] : [],
    ...runs?.ipamType && !hasType(value["ipam"]) ? [runs.ipamType] : [],
  ];
}
