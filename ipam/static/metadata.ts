/**
 * What tools know about static. Its calls never load this file.
 *
 * @module
 */

import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";
import { lint, listSubnets } from "./lint.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "static",
  kind: "ipam",
  status: "stable",
  traits: ["assigns requests"],
  lint,
  subnets: listSubnets,
  keys: () => ({
    summary: "assigns fixed addresses",
    goPeer: "containernetworking/plugins plugins/ipam/static",
    text:
      "Assigns the addresses listed in the configuration, or passed by the runtime with each ADD. It creates no interfaces and stores nothing. It does not prevent two attachments from using the same address. To allocate addresses from a range, use [host-local](host-local.md).",
    example,
    keys: {
      "addresses": {
        text: "List of `address` (with prefix length, required) and `gateway`.",
        default: "none",
      },
      "routes": {
        text:
          "Copied into the result: `dst`, `gw`, `mtu`, `advmss`, `priority`, `table`, `scope`.",
        default: "none",
      },
      "dns": {
        text:
          "Copied into the result: `nameservers`, `domain`, `search`, `options`.",
        default: "none",
      },
    },
  }),
};
