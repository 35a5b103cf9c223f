/**
 * CHECK of a device.
 *
 * @module
 */

import type { Call } from "../../cni/plugin.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { checkFailure } from "../parts/check_link.ts";
import { checkSandboxLink } from "../parts/check_sandbox_link.ts";
import { requirePrevResult } from "../parts/prev_result.ts";

const MISSING = "Required prevResult missing";

/** Checks the lease, and the device with its addresses and routes. */
export async function checkDevice(sandbox: Rtnl, call: Call): Promise<void> {
  await checkSandboxLink(call, { sandbox, missing: MISSING, more: checkAlias });
}

/** Checks the lease of a device without a link. */
export async function checkLease(call: Call): Promise<void> {
  requirePrevResult(call, MISSING);
  if (call.config.ipam?.type) await call.ipam.check();
}

function checkAlias({ name, alias }: Link): void {
  if (alias) return;
  throw checkFailure(
    `Interface "${name}" lacks the alias with its name on the host`,
  );
}
