/**
 * The configuration schema of sbr.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import { netConf, optional, parsedBy } from "../../cni/config/types.ts";
import { AddressError, Ip, type IpFamily } from "../../net/ip.ts";

/** At most one router for each family. */
export type Gateways = Readonly<Partial<Record<IpFamily, Ip>>>;

/** Tables have 32-bit numbers; 0 is invalid. */
const LAST_TABLE = 2 ** 32 - 1;

/** Builds the schema of the network configuration. */
export const sbrSchema = once(() =>
  netConf({
    /** Table for packets from the addresses; chosen by the plugin if absent. */
    table: optional(z.int().check(z.minimum(1), z.maximum(LAST_TABLE))),
    /** Routers that take precedence over the gateways of the addresses. */
    gateways: optional(gatewaysSchema()),
    /** Whether the addresses' subnets stay in table main. */
    addSourceHints: optional(z.boolean()),
  })
);

/** The decoded configuration. */
export type SbrConfig = SchemaOutput<ReturnType<typeof sbrSchema>>;

function gatewaysSchema(): z.ZodMiniType<Gateways> {
  return z.pipe(z.array(z.string()), parsedBy(parseGateways));
}

/**
 * Source of the texts: containernetworking/plugins plugins/meta/sbr/main.go.
 */
function parseGateways(texts: string[]): Gateways {
  if (texts.length > 2) {
    throw new AddressError(
      "gateways list cannot contain more than 2 entries (one IPv4, one IPv6)",
    );
  }
  const gateways: Partial<Record<IpFamily, Ip>> = {};
  for (const text of texts) {
    const gateway = parseGateway(text);
    const { family } = gateway;
    const other = gateways[family];
    if (other !== undefined) {
      throw new AddressError(
        `gateways list contains multiple IPv${family} addresses: ${other} and ${text}`,
      );
    }
    gateways[family] = gateway;
  }
  return gateways;
}

function parseGateway(text: string): Ip {
  try {
    return Ip.parse(text);
  } catch (error) {
    if (!(error instanceof AddressError)) throw error;
    throw new AddressError(`invalid static gateway IP address: ${text}`);
  }
}
