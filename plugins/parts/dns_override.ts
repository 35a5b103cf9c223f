/**
 * The `dns` key of interface plugins, which replaces what the IPAM plugin says.
 *
 * @module
 */

import * as z from "zod/mini";
import type { Dns } from "../../cni/result.ts";
import { completeDns, givenDnsSchema, optional } from "../../cni/types.ts";

/**
 * Builds a schema that answers undefined where the key sets nothing. A list
 * that is there but empty does set something: that there shall be none.
 *
 * Source: containernetworking/plugins plugins/main/ptp/ptp.go `dnsConfSet`.
 */
export function dnsOverrideSchema(): z.ZodMiniOptional<
  z.ZodMiniType<Dns | undefined>
> {
  return optional(z.pipe(
    givenDnsSchema(),
    z.transform((given): Dns | undefined => {
      const { nameservers, domain, search, options } = given;
      return nameservers || domain || search || options
        ? completeDns(given)
        : undefined;
    }),
  ));
}
