/**
 * What IPAM plugins declare to the plugins that run them, which do not load their
 * metadata. `deno task schemas` writes it from the metadata of all plugins.
 *
 * @module
 */

// deno-fmt-ignore-file
import type { IpamTrait } from "../../metadata/plugin_metadata.ts";

/** The traits by type. */
export const IPAM_TRAITS: Readonly<Record<string, readonly IpamTrait[]>> = {
  "dhcp": ["asks over link","assigns own ranges","replaces addresses"],
  "host-local": ["assigns own ranges","replaces addresses"],
  "slaac": ["asks over link","assigns own ranges"],
  "static": ["assigns requests"],
  "whereabouts": ["leases requests","replaces addresses"],
};
