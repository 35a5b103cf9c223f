/**
 * debug: shows what the plugins of a list are given, and runs commands in the
 * sandbox. It changes nothing by itself.
 *
 * ```
 *   { "type": "ptp", … }  ──result──▶  { "type": "debug", … }  ──same result──▶
 *                                          │            │
 *                              a record in a file    hooks in the sandbox
 * ```
 *
 * ```json
 * {
 *   "type": "debug",
 *   "cniOutput": "/tmp/cni_output.txt",
 *   "addHooks": [["sh", "-c", "ip address > /tmp/$CNI_CONTAINERID"]]
 * }
 * ```
 *
 * ADD answers what the plugin before answered, or an empty result. DEL leaves
 * the file, and whatever the hooks did.
 *
 * @module
 */

import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import { emptyResult, type Result } from "../../cni/result.ts";
import { encodeResult } from "../../cni/result_encoding.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import type { DebugConfig } from "./config.ts";
import type { Hook } from "./hooks.ts";
import { recordCall } from "./record.ts";

/** The plugin. Source: containernetworking/plugins plugins/debug/main.go. */
export const debug: Plugin<DebugConfig> = definePlugin({
  name: "debug",
  versions: SPEC_VERSIONS,
  configSchema: async () => (await import("./config.ts")).debugSchema(),

  async add(call): Promise<Result> {
    recordCall(call);
    const result = call.prevResult ?? emptyResult();
    // Before the hooks run it shall be clear that the version has words for it:
    // 0.1.0 and 0.2.0 have none for an empty result.
    encodeResult(result, call.cniVersion);
    await runAny(call.config.addHooks, call);
    return result;
  },

  async check(call): Promise<void> {
    recordCall(call);
    await runAny(call.config.checkHooks, call);
  },

  async del(call): Promise<void> {
    recordCall(call);
    await runAny(call.config.delHooks, call);
  },

  // These are about the network, so there is no sandbox to run hooks in.
  gc: recordCall,
  status: recordCall,
});

/** Runs hooks, for which much is loaded that a call without them does without. */
async function runAny(
  hooks: readonly Hook[] | undefined,
  call: Call<DebugConfig>,
): Promise<void> {
  if (hooks === undefined || hooks.length === 0) return;
  const { runHooks } = await import("./hooks.ts");
  await runHooks(hooks, call);
}
