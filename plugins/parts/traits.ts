/**
 * What a plugin's metadata declare to other plugins.
 *
 * @module
 */

import type { NetConf } from "../../cni/config/types.ts";
import type { PluginTrait } from "../../metadata/plugin_metadata.ts";
import { TRAITS } from "../lists/traits.ts";

export { SEGMENTS } from "../lists/traits.ts";

/** Reports whether a configuration's IPAM plugin has a trait. */
export function ipamHas(
  { ipam }: Pick<NetConf, "ipam">,
  trait: PluginTrait,
): boolean {
  return typeHas(ipam?.type, trait);
}

/** Reports whether the plugin with a type, as in a configuration, has a trait. */
export function typeHas(type: unknown, trait: PluginTrait): boolean {
  return typeof type === "string" && TRAITS.get(type)?.includes(trait) === true;
}
