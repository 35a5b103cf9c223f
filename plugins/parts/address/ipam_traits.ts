/**
 * What the IPAM plugin of a configuration declares about itself.
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
  const type = ipam?.type ?? "";
  return Object.hasOwn(IPAM_TRAITS, type) &&
    IPAM_TRAITS[type]?.includes(trait) === true;
}
