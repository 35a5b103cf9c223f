/**
 * Changes the container's interface, and restores it.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../cni/error.ts";
import type { Call } from "../../cni/plugin.ts";
import { type Rollback, throwAll } from "../../cni/call/rollback.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { isOfAnotherPod } from "../parts/prev_result.ts";
import { findSandbox } from "../parts/sandbox.ts";
import { Backup } from "./backup.ts";
import {
  changeSetting,
  keysOf,
  type LinkSettings,
  readSettings,
  restoreSettings,
} from "./link_settings.ts";
import type { TuningConfig } from "./schema.ts";

/**
 * Changes the interface, after a backup of its settings. The values of an
 * earlier backup stay in it: they are from before all changes.
 *
 * @throws {CniError} 4 if the interface does not exist, 5 if the backup cannot
 *   be written
 * @throws {Error} If the kernel refuses a setting
 */
export function tuneLink(
  sandbox: Rtnl,
  wanted: LinkSettings,
  call: Call<TuningConfig>,
  rollback: Rollback,
): void {
  const keys = keysOf(wanted);
  if (keys.length === 0) return;
  const { ifName } = call.args;
  const link = sandbox.link.find(ifName);
  if (link === undefined) {
    throw new CniError(
      ErrorCode.InvalidEnvironment,
      `failed to get "${ifName}": Link not found`,
    );
  }
  const backup = new Backup(call);
  const earlier = backup.read();
  const before = readSettings(link, keys);
  rollback.onFailure(`restore "${ifName}"`, () => {
    const refusals = restoreSettings(sandbox, link.index, before);
    throwAll(refusals, `${refusals.length} settings cannot be restored`);
    if (earlier === undefined) backup.remove();
    else backup.write(earlier);
  });
  backup.write({ ...before, ...earlier });
  for (const key of keys) changeSetting(sandbox, link, wanted, key);
}

/**
 * Restores the interface from its backup, and removes the backup. Refusals
 * of the kernel are logged: they must not block the container's deletion.
 *
 * @throws {CniError} 5 if the backup cannot be read or removed; 11 or 999 if the
 *   sandbox cannot be opened
 */
export function restoreLink(call: Call<TuningConfig>): void {
  const backup = new Backup(call);
  const settings = backup.read();
  if (settings === undefined) return;
  using sandbox = findSandbox(call);
  if (sandbox !== undefined && !isOfAnotherPod(sandbox, call)) {
    for (
      const refusal of restoreSettings(sandbox, call.args.ifName, settings)
    ) call.log.warn("Cannot restore", { problem: describeError(refusal) });
  }
  backup.remove();
}
