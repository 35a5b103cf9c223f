/**
 * The plugins that a configuration names.
 *
 * @module
 */

import { isObject } from "../../cni/json.ts";

/** Lists the types of all plugins in a configuration, of IPAM plugins and delegates too. */
export function listTypes(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(listTypes);
  if (!isObject(value)) return [];
  const { type } = value;
  return [
    ...typeof type === "string" ? [type] : [],
    ...type === "flannel" ? listFlannelDefaults(value) : [],
    ...Object.values(value).flatMap(listTypes),
  ];
}

/** Lists the plugins that flannel runs if its configuration names no others. */
function listFlannelDefaults(
  { delegate, ipam }: Record<string, unknown>,
): string[] {
  const hasType = (part: unknown): boolean =>
    isObject(part) && Boolean(part["type"]);
  return [
    ...hasType(delegate) ? [] : ["bridge"],
    ...hasType(ipam) ? [] : ["host-local"],
  ];
}
