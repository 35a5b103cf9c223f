/**
 * The `dns` key of interface plugins, which replaces what the IPAM plugin says.
 *
 * @module
 */

import * as z from "zod/mini";
import type { Dns } from "../../cni/result.ts";
import { optional } from "../../cni/types.ts";

/**
 * Builds a schema that answers undefined where the key sets nothing. A list
 * that is there but empty does set something: that there shall be none.
 *
 * Source: containernetworking/plugins plugins/main/ptp/ptp.go `dnsConfSet`.
 */
export function dnsOverrideSchema(): z.ZodMiniOptional<
  z.ZodMiniType<Dns | undefined>
> {
  const texts = optional(z.array(z.string()));
  return optional(z.pipe(
    z.object({
      nameservers: texts,
      domain: optional(z.string()),
      search: texts,
      options: texts,
    }),
    z.transform(({ nameservers, domain, search, options }): Dns | undefined =>
      nameservers || domain || search || options
        ? {
          nameservers: nameservers ?? [],
          domain: domain ?? "",
          search: search ?? [],
          options: options ?? [],
        }
        : undefined
    ),
  ));
}
