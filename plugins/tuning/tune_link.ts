/**
 * Changes the container's interface, and restores it.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import { type Rollback, throwAll } from "../../base/rollback.ts";
import type { Call } from "../../cni/plugin.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { isOfAnotherPod } from "../parts/sandbox/prev_result.ts";
import { findSandbox, persistentIdOf } from "../parts/sandbox/sandbox.ts";
import { Backup, type Place } from "./backup.ts";
import {
  changeSetting,
  keysOf,
  type LinkSettings,
  readSettings,
  restoreSettings,
} from "../parts/link/link_settings.ts";
import type { TuningConfig } from "./schema.ts";

/**
 * Changes the interface, after a backup of its settings. The values of an earlier
 * backup are kept, because they precede all changes.
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
  const netns = persistentIdOf(sandbox);
  backup.write({ ...before, ...earlier, netns, index: link.index });
  for (const key of keys) changeSetting(sandbox, link, wanted, key);
}

/**
 * Restores the interface from its backup, and removes the backup. Refusals of the
 * kernel are logged, because they must not prevent the container's deletion. Keeps
 * the backup if the owner of the interface is unknown.
 *
 * @throws {CniError} 5 if the backup cannot be read or removed; 11 or 999 if the
 *   sandbox cannot be opened
 */
export function restoreLink(call: Call<TuningConfig>): void {
  const backup = new Backup(call);
  const settings = backup.read();
  if (settings === undefined) return;
  using sandbox = findSandbox(call);
  const { log, args: { ifName } } = call;
  if (sandbox !== undefined) {
    const isSame = isSameNetns(sandbox, settings);
    if (isSame === undefined && isOfAnotherPod(sandbox, call)) {
      log.warn("Keeping an interface that might belong to a different pod", {
        ifName,
      });
      return;
    }
    // The container might have renamed the interface.
    const which = isSame ? settings.index ?? ifName : ifName;
    const refusals = isSame === false
      ? []
      : restoreSettings(sandbox, which, settings);
    for (const refusal of refusals) {
      log.warn("Cannot restore", { problem: describeError(refusal) });
    }
  }
  backup.remove();
}

/**
 * Reports whether a namespace is the backup's namespace. Returns undefined if the
 * backup does not contain it, like the Go plugin's backups, or the kernel does not
 * report it.
 */
function isSameNetns(sandbox: Rtnl, { netns }: Place): boolean | undefined {
  const present = netns === undefined ? undefined : persistentIdOf(sandbox);
  return present === undefined ? undefined : present === netns;
}
