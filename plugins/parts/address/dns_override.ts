/**
 * The `dns` key of interface plugins, which overrides the IPAM plugin's DNS settings.
 *
 * @module
 */

import * as z from "zod/mini";
import type { Dns } from "../../../cni/result/result.ts";
import {
  completeDns,
  givenDnsSchema,
  optional,
} from "../../../cni/config/types.ts";

/**
 * Builds a schema that returns undefined if the key sets nothing. An empty list
 * counts as set, and yields no entries.
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
