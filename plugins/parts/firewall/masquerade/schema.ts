/**
 * The configuration keys of plugins that masquerade.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type Schema } from "../../../../base/json/json.ts";
import { ipSchema, optional, refusing } from "../../../../cni/config/types.ts";
import type { Ip, IpFamily } from "../../../../net/ip.ts";

/** The backend that contains the rules. */
export type MasqueradeBackend = "nftables" | "iptables";

const BACKENDS: readonly string[] = ["nftables", "iptables"];

const quote = (text: string | undefined): string => JSON.stringify(text);

/** The keys of a configuration. */
export interface MasqueradeKeys {
  /** Whether to masquerade. */
  readonly ipMasq?: boolean | undefined;
  /** The families to masquerade; both if undefined. */
  readonly ipMasqFamilies?: readonly IpFamily[] | undefined;
  /** The addresses with which packets leave; the addresses of links if undefined. */
  readonly outboundAddresses?: readonly Ip[] | undefined;
  /** A {@linkcode MasqueradeBackend} if `ipMasq` is true; the host decides if undefined. */
  readonly ipMasqBackend?: string | undefined;
}

/** Builds the schemas of {@linkcode MasqueradeKeys}. */
export const masqueradeKeys: () => {
  readonly ipMasq: Schema<boolean | undefined>;
  readonly ipMasqFamilies: Schema<readonly IpFamily[] | undefined>;
  readonly outboundAddresses: Schema<readonly Ip[] | undefined>;
  readonly ipMasqBackend: Schema<string | undefined>;
} = once(() => ({
  ipMasq: optional(z.boolean()),
  ipMasqFamilies: optional(
    z.array(z.literal([4, 6])).check(z.minLength(1)),
  ),
  outboundAddresses: optional(z.array(ipSchema())),
  ipMasqBackend: optional(z.string()),
}));

/** Extends a schema to reject unknown backends and useless outbound addresses. */
export function withMasquerade<C extends MasqueradeKeys>(
  config: Schema<C>,
): Schema<C> {
  const known = refusing(config, "ipMasqBackend", findUnknownBackend);
  return refusing(known, "outboundAddresses", findProblem);
}

function findUnknownBackend(
  { ipMasq, ipMasqBackend }: MasqueradeKeys,
): string | undefined {
  const isKnown = !ipMasq || ipMasqBackend === undefined ||
    BACKENDS.includes(ipMasqBackend);
  return isKnown
    ? undefined
    : `expected ${BACKENDS.map(quote).join(" or ")}, got ${
      quote(ipMasqBackend)
    }`;
}

/** Finds an outbound address that no packet would use. */
function findProblem(
  { ipMasq, ipMasqFamilies = [4, 6], outboundAddresses = [] }: MasqueradeKeys,
): string | undefined {
  if (!ipMasq) return undefined;
  const seen = new Set<IpFamily>();
  for (const ip of outboundAddresses) {
    const { family } = ip;
    if (!ipMasqFamilies.includes(family)) {
      return `${ip} has no effect: ipMasqFamilies does not include ${family}`;
    }
    if (seen.has(family)) return `expected one IPv${family} address`;
    seen.add(family);
  }
  return undefined;
}
