/**
 * Metadata of passthru for tools. Its calls never load this file.
 *
 * @module
 */

import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "passthru",
  kind: "meta",
  status: "stable",
  page: "multus-networks#passthru",
  install: { onRequest: true },
  keys: () => ({
    summary: "does nothing; comes first where a plugin expects a prevResult",
    goPeer: "k8snetworkplumbingwg/multus-cni cmd/passthru-cni",
    text:
      "Does nothing, and has no keys. ADD returns the prevResult, or an empty result. Use it as the first plugin of a list whose other plugins expect a prevResult. It supports CNI versions 0.3.0 and later.",
    keys: {},
  }),
};
