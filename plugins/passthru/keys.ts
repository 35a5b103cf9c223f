/**
 * The keys of passthru's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../cni/tools/plugin_keys.ts";

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  type: "passthru",
  summary: "does nothing; starts a chain of plugins that expect a prevResult",
  goPeer: "k8snetworkplumbingwg/multus-cni cmd/passthru-cni",
  text:
    "Does nothing, and has no keys. ADD returns the prevResult, or an empty result. Use it as the first plugin of a list whose other plugins expect a prevResult. It supports versions from 0.3.0 on.",
  keys: {},
};
