/**
 * Multus must not delegate to itself: each call would start a further call, until the
 * node runs out of processes. `refuseSelf()` finds most cases from the types in a
 * configuration. Indirect cases, through a plugin that runs further plugins, are
 * detected with an environment variable that delegates inherit.
 *
 * @module
 */

import type { CmdArgs } from "../../../cni/call/args.ts";
import type { Environment } from "../../../base/process/environment.ts";
import { CniError, ErrorCode } from "../../../base/error.ts";

/** The attachments in progress above a delegate, outermost first. */
const VARIABLE = "CNI_MULTUS_ATTACHMENTS";

/**
 * Limits the nesting. A loop that uses a different interface name each time never
 * repeats an attachment.
 */
const MAX_DEPTH = 8;

/**
 * Reports whether a delegate of multus, directly or indirectly, called multus for an
 * attachment in progress. All STATUS and GC calls count as the same attachment.
 *
 * @param env The environment of this process
 */
export function isRecursion(
  env: Environment,
  args: Pick<CmdArgs, "containerId" | "ifName">,
): boolean {
  const above = listAbove(env);
  return above.length >= MAX_DEPTH || above.includes(nameOf(args));
}

/** Reports whether a delegate of multus called multus. */
export function isNested(env: Environment): boolean {
  return listAbove(env).length > 0;
}

/**
 * Enters an attachment: builds the environment of its delegates.
 *
 * Callers return early from a DEL that {@linkcode isRecursion} reports: an error
 * would keep the pod from being deleted.
 *
 * @param env The environment of this process
 * @throws {CniError} 7 If the attachment is already in progress
 */
export function enterRecursion(
  env: Environment,
  args: Pick<CmdArgs, "containerId" | "ifName">,
): Environment {
  if (isRecursion(env, args)) {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      "Cannot run multus: it was called by one of its own delegates",
      { details: `${VARIABLE} is "${env[VARIABLE]}"` },
    );
  }
  const attachments = [...listAbove(env), nameOf(args)];
  return { ...env, [VARIABLE]: attachments.join(" ") };
}

function listAbove(env: Environment): string[] {
  return (env[VARIABLE] ?? "").split(" ").filter((name) => name !== "");
}

/** Neither part can contain a slash or a space. */
function nameOf(
  { containerId, ifName }: Pick<CmdArgs, "containerId" | "ifName">,
): string {
  return `${containerId}/${ifName}`;
}
