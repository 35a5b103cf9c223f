/**
 * Metadata of vrf for tools. Its calls never load this file.
 *
 * @module
 */

import type {
  BuiltInMetadata,
  Linted,
} from "../../metadata/plugin_metadata.ts";
import { linkNeed } from "../parts/link/link_needs.ts";
import example from "./example.json" with { type: "json" };
import { checkInterfaceName } from "../../cni/call/args.ts";
import { errorAt, type Problem } from "../../metadata/problem.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "vrf",
  kind: "chained",
  status: "stable",
  lint,
  needs: [linkNeed("vrf", "vrf", { kind: "vrf", data: { table: 10 } })],
  keys: () => ({
    summary: "puts the interface into a VRF",
    goPeer: "containernetworking/plugins plugins/meta/vrf",
    text:
      "Puts a container's interface into a virtual routing and forwarding domain (VRF). Its packets are routed by the VRF's table only, so a container can be on networks with the same addresses or the same routes. Chain it after the plugin that creates the interface.",
    example,
    required: [
      "vrfname",
    ],
    keys: {
      "vrfname": {
        text:
          "Name of the VRF, a valid interface name. Interfaces with the same `vrfname` share the VRF.",
        type: "string",
        default: "required",
      },
      "table": {
        text:
          "Routing table of the VRF. If the VRF exists, it must have this table. By default, tables count from 1.",
        type: "integer",
        default: "the lowest free table",
      },
    },
  }),
};

/** See {@linkcode Lint}. */
function lint({ conf: { vrfname } }: Linted): Problem[] {
  if (!vrfname) return [errorAt(["vrfname"], "missing")];
  if (vrfname === "lo") {
    const problem = "the container's loopback has this name, and is not a VRF";
    return [errorAt(["vrfname"], problem)];
  }
  try {
    checkInterfaceName(String(vrfname));
    return [];
  } catch {
    const problem = `Cannot use "${vrfname}" as the name of an interface`;
    return [errorAt(["vrfname"], problem)];
  }
}
