/**
 * passthru: a plugin that does nothing, as the first plugin of a list whose other
 * plugins must be chained.
 *
 * ```
 * { "type": "passthru" }  ──empty result──▶  { "type": "tuning", … }
 * ```
 *
 * ADD returns the previous plugin's result, or an empty result. CHECK and DEL do
 * nothing.
 *
 * @module
 */

import { definePlugin, type Plugin } from "../../cni/plugin.ts";
import { emptyResult, type Result } from "../../cni/result/result.ts";
import { once } from "../../base/json/json.ts";
import { netConf } from "../../cni/config/types.ts";
import { listVersionsFrom } from "../../cni/version.ts";

const passthruSchema = once(() => netConf({}));

/** The plugin. Source: multus-cni cmd/passthru-cni. */
export const passthru: Plugin = definePlugin({
  name: "passthru",
  // Earlier versions cannot express an empty result.
  versions: listVersionsFrom("0.3.0"),
  configSchema: passthruSchema,

  add({ prevResult }): Result {
    return prevResult ?? emptyResult();
  },
});
