/**
 * CHECK of plugins that create a single link, in the sandbox.
 *
 * @module
 */

import { Differences } from "../../../cni/call/differences.ts";
import type { Call } from "../../../cni/plugin.ts";
import type { MaybePromise } from "../../../base/waiting.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import {
  checkConfigured,
  compareLink,
  sandboxInterfaceOf,
} from "./check_link.ts";
import { ownPartOf, requirePrevResult } from "../sandbox/prev_result.ts";

/** The comparisons of {@linkcode checkSandboxLink}. */
export interface LinkChecks {
  /** The container's namespace. */
  readonly sandbox: Rtnl;
  /** The kind of link that the plugin creates; any kind if undefined. */
  readonly kind?: string;
  /** The error's message if prevResult is missing. */
  readonly missing: string;
  /** Checks what is specific to the plugin. */
  readonly more?: (
    link: Link,
    differences: Differences,
  ) => MaybePromise<unknown>;
}

/**
 * Checks the lease, the interface, its addresses and its routes.
 *
 * @throws {CniError} With all differences from ADD's result
 */
export async function checkSandboxLink(
  call: Call,
  { sandbox, kind, missing, more }: LinkChecks,
): Promise<void> {
  const prevResult = requirePrevResult(call, missing);
  const result = ownPartOf(prevResult, call.args);
  const differences = new Differences();
  await differences.collect(async () => {
    if (call.config.ipam?.type) await call.ipam.check();
  });
  const link = await differences.collect(() =>
    compareLink(differences, sandbox, sandboxInterfaceOf(result, call.args), {
      kind,
    })
  );
  if (link !== undefined) {
    await differences.collect(() => more?.(link, differences));
    await checkConfigured(differences, sandbox, link, result);
  }
  differences.throwAny();
}
