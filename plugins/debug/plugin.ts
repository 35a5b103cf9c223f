/**
 * debug: records the input of plugins in a list, and runs commands in the sandbox. It
 * changes nothing itself.
 *
 * ```
 *   { "type": "ptp", … }  ──result──▶  { "type": "debug", … }  ──same result──▶
 *                                          │            │
 *                              a record in a file    hooks in the sandbox
 * ```
 *
 * It performs only actions that a file on the node also configures. ADD returns the
 * previous plugin's result, or an empty result. DEL keeps the file and all effects of
 * the hooks.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import { emptyResult, type Result } from "../../cni/result/result.ts";
import { encodeResult } from "../../cni/result/encoding.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { checkAskedFor } from "./asked_for.ts";
import type { DebugConfig } from "./schema.ts";
import type { Hook } from "./hooks.ts";
import { recordCall } from "./record.ts";

/** The plugin. Source: containernetworking/plugins plugins/debug/main.go. */
export const debug: Plugin<DebugConfig> = definePlugin({
  name: "debug",
  versions: SPEC_VERSIONS,
  configSchema: async () => (await import("./schema.ts")).debugSchema(),

  async add(call): Promise<Result> {
    checkAskedFor(call);
    recordCall(call);
    const result = call.prevResult ?? emptyResult();
    // Check before the hooks run that the version can express the result: 0.1.0 and
    // 0.2.0 cannot express an empty result.
    encodeResult(result, call.cniVersion);
    await runAny(call.config.addHooks, call);
    return result;
  },

  async check(call): Promise<void> {
    checkAskedFor(call);
    recordCall(call);
    await runAny(call.config.checkHooks, call);
  },

  async del(call): Promise<void> {
    if (!isAskedFor(call)) return;
    recordCall(call);
    await runAny(call.config.delHooks, call);
  },

  // These commands concern the network, so hooks have no sandbox.
  gc(call): void {
    if (isAskedFor(call)) recordCall(call);
  },
  status(call): void {
    checkAskedFor(call);
    recordCall(call);
  },
});

/**
 * Reports whether debug's actions are requested, without failing, because a command
 * that cleans up must not fail.
 */
function isAskedFor(call: Call<DebugConfig>): boolean {
  try {
    checkAskedFor(call);
    return true;
  } catch (error) {
    call.log.warn("debug does nothing", { error: describeError(error) });
    return false;
  }
}

/** Runs hooks. Their modules are loaded only if there are any. */
async function runAny(
  hooks: readonly Hook[] | undefined,
  call: Call<DebugConfig>,
): Promise<void> {
  if (hooks === undefined || hooks.length === 0) return;
  const { runHooks } = await import("./hooks.ts");
  await runHooks(hooks, call);
}
