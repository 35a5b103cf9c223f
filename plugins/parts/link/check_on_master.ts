/**
 * CHECK of plugins that create their link on a master.
 *
 * @module
 */

import type { Differences } from "../../../cni/call/differences.ts";
import type { Call } from "../../../cni/plugin.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { checkFailure, isOn } from "./check_link.ts";
import { checkSandboxLink } from "./check_sandbox_link.ts";
import type { MasterConfig } from "./on_master.ts";
import { openSandbox } from "../sandbox/sandbox.ts";

/** What ADD has set: its name, the link's value and the expected one. */
export type Setting = readonly [
  name: string,
  actual: string | number | undefined,
  expected: string | number | undefined,
];

/** What {@linkcode checkOnMaster} compares. */
export interface MasterChecks {
  /** The kind of link that the plugin creates. */
  readonly kind: string;
  /** The error's message if prevResult is missing. */
  readonly missing: string;
  /** Lists what the kind's settings are, and should be. */
  readonly settings: (link: Link) => readonly Setting[];
  /** Checks what ADD has prepared on the host. */
  readonly onHost?: (link: Link, differences: Differences) => Promise<void>;
}

/**
 * Checks the lease, the interface with its settings, its master if the
 * configuration names it, its addresses and its routes.
 *
 * @throws {CniError} With all differences from ADD's result
 */
export async function checkOnMaster(
  call: Call<MasterConfig>,
  { settings, onHost, ...checks }: MasterChecks,
): Promise<void> {
  using sandbox = openSandbox(call.args);
  await checkSandboxLink(call, {
    ...checks,
    sandbox,
    more: async (link, differences) => {
      for (const setting of settings(link)) {
        await differences.collect(() => checkSetting(link, setting));
      }
      await onHost?.(link, differences);
      checkMaster(call, sandbox, link);
    },
  });
}

function checkSetting(
  { name: link }: Link,
  [name, actual, expected]: Setting,
): void {
  if (actual === expected) return;
  throw checkFailure(
    `Interface "${link}" has ${name} ${actual}, not ${expected}`,
  );
}

function checkMaster(
  { config, hostNetns }: Call<MasterConfig>,
  sandbox: Rtnl,
  link: Link,
): void {
  const { master: name, linkInContainer } = config;
  if (!name) return;
  using host = linkInContainer ? undefined : Rtnl.open(hostNetns);
  const master = (host ?? sandbox).link.find(name);
  if (master === undefined) {
    throw checkFailure(`failed to lookup master "${name}": Link not found`);
  }
  if (isOn(link, master)) return;
  throw checkFailure(`Interface "${link.name}" is not on master "${name}"`);
}
