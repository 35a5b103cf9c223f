/**
 * The schema of static's configuration.
 *
 * Addresses stay strings here: an overridden list is not validated, and each
 * source has its own error.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import {
  dnsSchema,
  netConf,
  optional,
  optionalIpSchema,
  routeSchema,
} from "../../cni/config/types.ts";

/** Builds the schema of the whole network configuration. */
export const staticSchema = once(() => {
  const ips = optional(z.array(z.string()));
  const address = z.looseObject({
    address: z._default(z.string(), ""),
    gateway: optionalIpSchema(),
  });
  return netConf({
    ipam: optional(z.looseObject({
      type: optional(z.string()),
      addresses: optional(z.array(address)),
      routes: optional(z.array(routeSchema())),
      dns: optional(dnsSchema()),
    })),
    args: optional(z.looseObject({
      cni: optional(z.looseObject({ ips })),
    })),
    runtimeConfig: optional(z.looseObject({ ips })),
  });
});

/** The decoded configuration. */
export type StaticConfig = SchemaOutput<ReturnType<typeof staticSchema>>;
