/**
 * Metadata of dummy for tools. Its calls never load this file.
 *
 * @module
 */

import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";
import { linkNeed } from "../parts/link/link_needs.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "dummy",
  kind: "interface",
  status: "stable",
  ipam: "required",
  refusesIpam: "asks over link",
  makesInterface: true,
  queues: "none",
  network: { joins: "node" },
  needs: [linkNeed("dummy", "dummy", { kind: "dummy" })],
  keys: () => ({
    summary: "creates an interface that is connected to nothing",
    goPeer: "containernetworking/plugins plugins/main/dummy",
    text:
      "Gives a container an interface that is connected to nothing, for addresses that need no network.",
    example,
    required: [
      "ipam",
    ],
    keys: {
      "ipam": {
        text: "IPAM plugin. Required.",
        type: "object",
      },
    },
  }),
};
