/**
 * REPAIR: repeats the steps of ADD. The backup keeps the values from before ADD.
 *
 * @module
 */

import type { Call, RepairScope } from "../../cni/plugin.ts";
import { Rollback } from "../../base/rollback.ts";
import { openSandbox } from "../parts/sandbox/sandbox.ts";
import { checkAllowed } from "./allowlist.ts";
import type { TuningConfig } from "./schema.ts";
import { settingsOf } from "./settings.ts";
import { writeSysctls } from "./sysctls.ts";
import { tuneLink } from "./tune_link.ts";

/**
 * Sets parameters and interface again. All of them belong to the container.
 *
 * @throws {CniError} 5 or 7 if a parameter cannot be set
 * @throws {Error} If the kernel refuses a setting
 */
export async function repair(
  call: Call<TuningConfig>,
  scope: RepairScope,
): Promise<void> {
  if (!scope.sandbox) return;
  const { sysctls, link } = settingsOf(call);
  await checkAllowed(sysctls);
  using sandbox = openSandbox(call.args);
  const rollback = new Rollback(call.log);
  writeSysctls(sandbox.netns, sysctls, rollback);
  tuneLink(sandbox, link, call, rollback);
}
