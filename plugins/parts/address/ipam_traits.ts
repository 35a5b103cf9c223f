/**
 * Traits that the IPAM plugin of a configuration declares.
 *
 * @module
 */

import type { NetConf } from "../../../cni/config/types.ts";
import type { IpamTrait } from "../../../metadata/plugin_metadata.ts";
import { IPAM_TRAITS } from "../../lists/ipam_traits.ts";

/** Reports whether a configuration's IPAM plugin has a trait. */
export function ipamHas(
  { ipam }: Pick<NetConf, "ipam">,
  trait: IpamTrait,
): boolean {
  return typeHas(ipam?.type, trait);
}

/** Reports whether the IPAM plugin with a type, as in a configuration, has a trait. */
export function typeHas(type: unknown, trait: IpamTrait): boolean {
  return typeof type === "string" && Object.hasOwn(IPAM_TRAITS, type) &&
    IPAM_TRAITS[type]?.includes(trait) === true;
}
