/**
 * The configuration keys of plugins that masquerade.
 *
 * @module
 */

import * as z from "zod/mini";
import type { Schema } from "../../../../base/json/json.ts";
import { once, optional } from "../../../../cni/config/types.ts";

/** Where the rules are kept. */
export type MasqueradeBackend = "nftables" | "iptables";

const BACKENDS: readonly string[] = ["nftables", "iptables"];

const quote = (text: string | undefined): string => JSON.stringify(text);

/** The keys of a configuration. */
export interface MasqueradeKeys {
  /** Whether to masquerade. */
  readonly ipMasq?: boolean | undefined;
  /** A {@linkcode MasqueradeBackend} if `ipMasq` is true; the host decides if undefined. */
  readonly ipMasqBackend?: string | undefined;
}

/** Builds the schemas of {@linkcode MasqueradeKeys}. */
export const masqueradeKeys: () => {
  readonly ipMasq: Schema<boolean | undefined>;
  readonly ipMasqBackend: Schema<string | undefined>;
} = once(() => ({
  ipMasq: optional(z.boolean()),
  ipMasqBackend: optional(z.string()),
}));

/** Extends a schema to reject unknown backends. */
export function withKnownBackend<C extends MasqueradeKeys>(
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
  return (config as unknown as z.ZodMiniType<C>).check(check);
}
