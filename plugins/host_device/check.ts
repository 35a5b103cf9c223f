/**
 * CHECK of a device.
 *
 * @module
 */

import type { Call } from "../../cni/plugin.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { checkFailure, throwDifferences } from "../parts/link/check_link.ts";
import { checkSandboxLink } from "../parts/link/check_sandbox_link.ts";
import { requirePrevResult } from "../parts/sandbox/prev_result.ts";
import { findMissingRules } from "./host_network.ts";
import { RecordFile } from "./record.ts";
import type { HostDeviceConfig } from "./schema.ts";

const MISSING = "Required prevResult missing";

/** Checks the lease, and the device with its addresses and routes. */
export async function checkDevice(
  sandbox: Rtnl,
  call: Call<HostDeviceConfig>,
): Promise<void> {
  await checkSandboxLink(call, {
    sandbox,
    missing: MISSING,
    more: async (link, differences) => {
      await differences.collect(() => checkAlias(link));
      await differences.collect(() => checkRules(sandbox, call));
    },
  });
}

/** Checks the lease of a device without a link. */
export async function checkLease(call: Call): Promise<void> {
  requirePrevResult(call, MISSING);
  if (call.config.ipam?.type) await call.ipam.check();
}

/** Checks the rules of the host's network, which the result does not contain. */
function checkRules(sandbox: Rtnl, call: Call<HostDeviceConfig>): void {
  if (!call.config.useInterfaceNetwork) return;
  const network = new RecordFile(call).read()?.hostNetwork;
  const missing = network ? findMissingRules(sandbox, network) : [];
  throwDifferences(missing.map(({ source, table }) => ({
    msg: `The container lacks rule from ${source} lookup ${table}`,
  })));
}

function checkAlias({ name, alias }: Link): void {
  if (alias) return;
  throw checkFailure(
    `Interface "${name}" lacks the alias with its name on the host`,
  );
}
