/**
 * The IPAM plugin that a configuration names, as written: before a schema has
 * respelt its keys.
 *
 * @module
 */

import { findValue, type JsonObject, objectOf } from "../../base/json/json.ts";

/** Returns `ipam` of a plugin's configuration; an empty object without one. */
export function ipamOf(conf: JsonObject): JsonObject {
  return objectOf(findValue(conf, "ipam"));
}

/** Lists the types of plugins and of their IPAM plugins, each once. */
export function typesWithIpam(
  plugins: readonly { readonly type: string; readonly document: JsonObject }[],
): string[] {
  const types = plugins.flatMap(({ type, document }) =>
    [type, ipamTypeOf(document) ?? []].flat()
  );
  return [...new Set(types)];
}

/** Returns the type of a plugin's IPAM plugin; undefined without one. */
export function ipamTypeOf(conf: JsonObject): string | undefined {
  const type = findValue(ipamOf(conf), "type");
  return typeof type === "string" && type !== "" ? type : undefined;
}
