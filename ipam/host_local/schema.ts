/**
 * The schema of host-local's configuration.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import {
  cidrSchema,
  netConf,
  optional,
  optionalIpSchema,
  parsedText,
  routeSchema,
} from "../../cni/config/types.ts";
import { parseStayTime } from "../../base/duration.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import { parseBlock } from "./range.ts";

/** Builds the schema of the whole network configuration. */
export const hostLocalSchema = once(() => {
  const bounds = {
    rangeStart: optionalIpSchema(),
    rangeEnd: optionalIpSchema(),
    gateway: optionalIpSchema(),
    exclude: optional(z.array(parsedText(parseBlock))),
  };
  const range = z.looseObject({ ...bounds, subnet: cidrSchema() });
  const rangeSets = optional(z.array(z.array(range)));
  const requestedIps = optional(z.array(parsedText(parseRequestedIp)));
  return netConf({
    ipam: optional(z.looseObject({
      ...bounds,
      type: optional(z.string()),
      subnet: optional(cidrSchema()),
      ranges: rangeSets,
      routes: optional(z.array(routeSchema())),
      dataDir: optional(z.string()),
      resolvConf: optional(z.string()),
      stay: optional(z.enum(["name"])),
      stayTime: optional(parsedText(parseStayTime)),
    })),
    capabilities: optional(z.looseObject({ ipRanges: optional(z.boolean()) })),
    args: optional(z.looseObject({
      cni: optional(z.looseObject({ ips: requestedIps })),
    })),
    runtimeConfig: optional(z.looseObject({
      ips: requestedIps,
      ipRanges: rangeSets,
    })),
  });
});

/** The decoded configuration. */
export type HostLocalConfig = SchemaOutput<ReturnType<typeof hostLocalSchema>>;

/**
 * Parses a requested address. A prefix length, which other IPAM plugins
 * require, is accepted and ignored.
 *
 * @throws {AddressError} If it is not an address
 */
export function parseRequestedIp(text: string): Ip {
  return text.includes("/") ? Cidr.parse(text).ip : Ip.parse(text);
}
