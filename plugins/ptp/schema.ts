/**
 * The configuration schema of ptp.
 *
 * @module
 */

import { once, type SchemaOutput } from "../../base/json/json.ts";
import { mtuSchema, netConf, optional } from "../../cni/config/types.ts";
import { dnsOverrideSchema } from "../parts/address/dns_override.ts";
import {
  masqueradeKeys,
  withMasquerade,
} from "../parts/firewall/masquerade/schema.ts";

/** Builds the schema of the network configuration. */
export const ptpSchema = once(() =>
  withMasquerade(netConf({
    /** MTU of both ends in bytes; the kernel's default if absent, 0 or less. */
    mtu: optional(mtuSchema()),
    ...masqueradeKeys(),
    dns: dnsOverrideSchema(),
  }))
);

/** The decoded configuration. */
export type PtpConfig = SchemaOutput<ReturnType<typeof ptpSchema>>;
