/**
 * Metadata of loopback for tools. Its calls never load this file.
 *
 * @module
 */

import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "loopback",
  kind: "interface",
  status: "stable",
  keys: () => ({
    summary: "brings up the container's `lo`",
    goPeer: "containernetworking/plugins plugins/main/loopback",
    text:
      "Brings up the sandbox's `lo`. containerd and other runtimes call it for every container.",
    example,
    keys: {},
  }),
};
