/**
 * The configuration schema of bridge.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import { mtuSchema, netConf, optional } from "../../cni/config/types.ts";
import { dnsOverrideSchema } from "../parts/address/dns_override.ts";
import {
  masqueradeKeys,
  withMasquerade,
} from "../parts/firewall/masquerade/schema.ts";

/**
 * Builds the schema of the network configuration.
 *
 * Source: containernetworking/plugins plugins/main/bridge/bridge.go `NetConf`.
 */
export const bridgeSchema = once(() => {
  const flag = optional(z.boolean()), integer = optional(z.int());
  const withMac = z.looseObject({ mac: optional(z.string()) });
  return withMasquerade(netConf({
    bridge: optional(z.string()),
    isGateway: flag,
    isDefaultGateway: flag,
    forceAddress: flag,
    ...masqueradeKeys(),
    mtu: optional(mtuSchema()),
    hairpinMode: flag,
    promiscMode: flag,
    vlan: integer,
    vlanTrunk: optional(z.array(trunkSchema())),
    preserveDefaultVlan: flag,
    macspoofchk: flag,
    enabledad: flag,
    conflictCheck: flag,
    disableContainerInterface: flag,
    portIsolation: flag,
    dns: dnsOverrideSchema(),
    args: optional(z.looseObject({ cni: optional(withMac) })),
    runtimeConfig: optional(withMac),
  }));
});

/** VLANs of a trunk: a single one, a range, or both. */
const trunkSchema = once(() =>
  z.looseObject({
    id: optional(z.int()),
    minID: optional(z.int()),
    maxID: optional(z.int()),
  })
);

/** An item of `vlanTrunk`. */
export type TrunkItem = SchemaOutput<ReturnType<typeof trunkSchema>>;

/** The decoded configuration. */
export type BridgeConfig = SchemaOutput<ReturnType<typeof bridgeSchema>>;
