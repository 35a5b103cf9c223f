/**
 * What plugins declare to other plugins, which do not load their metadata.
 * `deno task schemas` writes it from the metadata of all plugins.
 *
 * @module
 */

// deno-fmt-ignore-file
import type { PluginTrait, SegmentKeys } from "../../metadata/plugin_metadata.ts";

/** The traits by type. */
export const TRAITS: ReadonlyMap<string, readonly PluginTrait[]> = new Map([
  ["chain",["runs listed plugins","runs what it names"]],
  ["cnv-tuning",["sets requested MAC"]],
  ["contivk8s",["runs what it names"]],
  ["debug",["records STATUS","runs what it names"]],
  ["dhcp",["asks over link","assigns own ranges","replaces addresses"]],
  ["host-local",["assigns own ranges","replaces addresses"]],
  ["multus",["runs listed plugins"]],
  ["multus-shim",["runs listed plugins"]],
  ["ptp",["routes each address"]],
  ["remote",["runs what it names"]],
  ["slaac",["asks over link","assigns own ranges","needs router"]],
  ["static",["assigns requests"]],
  ["tuning",["sets requested MAC"]],
  ["whereabouts",["leases requests","replaces addresses"]],
]);

/** The keys that decide on the segment of a network, by type. */
export const SEGMENTS: ReadonlyMap<string, SegmentKeys> = new Map([
  ["bridge",{"link":{"key":"bridge","usual":"cni0"},"vlan":"vlan","unless":["isGateway","isDefaultGateway","vlanTrunk"]}],
  ["ipvlan",{"link":{"key":"master"},"unless":["linkInContainer"]}],
  ["macvlan",{"link":{"key":"master"},"unless":["linkInContainer"]}],
  ["vlan",{"link":{"key":"master"},"unless":["linkInContainer"],"vlan":"vlanId"}],
]);
