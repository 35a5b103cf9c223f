/**
 * Keys of plugins that masquerade, for tools.
 *
 * @module
 */

import type { KeyDescription } from "../../../../metadata/plugin_keys.ts";

/** The keys by name. */
export const MASQUERADE_KEYS = {
  "ipMasqFamilies": {
    text: "The address families to masquerade: 4, 6.",
    type: "list of integers",
    default: "`[4, 6]`",
    example: [4],
  },
  "outboundAddresses": {
    text:
      "The address with which packets leave, at most one for each family ([how](ptp.md#masquerade)).",
    type: "list of addresses",
    default: "the outgoing link's address",
    example: ["192.0.2.10"],
  },
} as const satisfies Readonly<Record<string, KeyDescription>>;
