/**
 * Keeps multus from attaching a pod to itself: each such call would make the
 * next, until the node is full of processes.
 *
 * A configuration tells by the types in it, whatever its file is called. What
 * hides behind a plugin that runs others is caught when it comes back, by an
 * environment variable that delegates inherit.
 *
 * @module
 */

import type { CmdArgs, Environment } from "../../../cni/args.ts";
import { CniError, ErrorCode } from "../../../cni/error.ts";
import type { JsonValue } from "../../../cni/json.ts";
import type { NetworkConf, NetworkConfList } from "../../../cni/libcni/conf.ts";
import { type Delegate, isList } from "./delegate.ts";

const OWN_TYPES: readonly unknown[] = [
  "multus",
  "multus-shim",
  "multus-daemon",
];

/** Keys whose objects are configurations of plugins that are run in turn. */
const INNER_PLUGINS = ["plugins", "delegates", "delegate"];

/** Says whether a network's configuration is one of multus, at any level. */
export function isOwnConf(conf: NetworkConfList | NetworkConf): boolean {
  const plugins = isList(conf) ? conf.plugins : [conf.plugin];
  return plugins.some(({ document }) => runsMultus(document));
}

/** Keys are compared in any case, as plugins do. */
function runsMultus(value: JsonValue): boolean {
  if (Array.isArray(value)) return value.some(runsMultus);
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(([key, item]) => {
    const folded = key.toLowerCase();
    return folded === "type"
      ? OWN_TYPES.includes(item)
      : INNER_PLUGINS.includes(folded) && runsMultus(item);
  });
}

/**
 * Refuses a delegate that is multus.
 *
 * @throws {CniError} 7 If it is
 */
export function refuseSelf(delegate: Delegate): void {
  if (!isOwnConf(delegate.conf)) return;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot attach to network "${delegate.name}": multus would call itself`,
  );
}

/** The attachments that are being made by multus above a delegate, outermost first. */
const VARIABLE = "CNI_MULTUS_ATTACHMENTS";

/**
 * How many of them there may be: with another interface name each time, no
 * attachment comes back, and there is no end all the same.
 */
const MAX_DEPTH = 8;

/**
 * Says whether multus was called for an attachment that it is busy with: by a
 * delegate of its own, however indirectly. STATUS and GC are of no attachment,
 * and so all of one.
 *
 * @param env What this process was started with
 */
export function isRecursion(
  env: Environment,
  args: Pick<CmdArgs, "containerId" | "ifName">,
): boolean {
  const above = listAbove(env);
  return above.length >= MAX_DEPTH || above.includes(nameOf(args));
}

/** Says whether multus was called by a delegate of multus. */
export function isNested(env: Environment): boolean {
  return listAbove(env).length > 0;
}

/**
 * Enters an attachment: makes the environment of its delegates.
 *
 * A DEL that {@linkcode isRecursion} finds has nothing to do, and should not
 * come here: an error would keep the pod from being deleted.
 *
 * @param env What this process was started with
 * @throws {CniError} 7 If multus is busy with it already
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

/** Neither part can have a slash or a blank in it. */
function nameOf(
  { containerId, ifName }: Pick<CmdArgs, "containerId" | "ifName">,
): string {
  return `${containerId}/${ifName}`;
}
