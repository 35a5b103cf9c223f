/**
 * The configuration keys of plugins that masquerade.
 *
 * @module
 */

import * as z from "zod/mini";
import type { Schema } from "../../../../base/json/json.ts";
import { ipSchema, once, optional } from "../../../../cni/config/types.ts";
import type { Ip, IpFamily } from "../../../../net/ip.ts";

/** Where the rules are kept. */
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

/** Extends a schema to reject unknown backends and outbound addresses without use. */
export function withMasquerade<C extends MasqueradeKeys>(
  config: Schema<C>,
): Schema<C> {
  const isKnown = ({ ipMasq, ipMasqBackend }: MasqueradeKeys): boolean =>
    !ipMasq || ipMasqBackend === undefined || BACKENDS.includes(ipMasqBackend);
  const check = z.refine<C>(isKnown, {
    path: ["ipMasqBackend"],
    error: ({ input }) =>
      `expected ${BACKENDS.map(quote).join(" or ")}, got ${
        quote((input as MasqueradeKeys).ipMasqBackend)
      }`,
    // Checked even if other keys are invalid: DEL drops all invalid keys
    // together.
    when: ({ value }) => typeof value === "object" && value !== null,
  });
  const outbound = z.refine<C>((keys) => findProblem(keys) === undefined, {
    path: ["outboundAddresses"],
    error: ({ input }) => findProblem(input as MasqueradeKeys),
    when: ({ value }) => typeof value === "object" && value !== null,
  });
  return (config as unknown as z.ZodMiniType<C>).check(check, outbound);
}

/** Finds an outbound address that no packet would have. */
function findProblem(
  { ipMasq, ipMasqFamilies = [4, 6], outboundAddresses = [] }: MasqueradeKeys,
): string | undefined {
  if (!ipMasq) return undefined;
  const seen = new Set<IpFamily>();
  for (const ip of outboundAddresses) {
    const { family } = ip;
    if (!ipMasqFamilies.includes(family)) {
      return `${ip} has no use: ipMasqFamilies lacks ${family}`;
    }
    if (seen.has(family)) return `expected one IPv${family} address`;
    seen.add(family);
  }
  return undefined;
}
