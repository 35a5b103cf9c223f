/**
 * Keeps multus from delegating to itself: each call would start another one,
 * until the node runs out of processes.
 *
 * The plugin types in a configuration show most cases. The others, behind a
 * plugin that runs further plugins, show in an environment variable that
 * delegates inherit.
 *
 * @module
 */

import type { CmdArgs, Environment } from "../../../cni/call/args.ts";
import { CniError, ErrorCode } from "../../../cni/error.ts";
import type { JsonValue } from "../../../cni/json/json.ts";
import type { NetworkConf, NetworkConfList } from "../../../cni/libcni/conf.ts";
import { type Delegate, isList } from "./delegate.ts";

const OWN_TYPES: readonly unknown[] = [
  "multus",
  "multus-shim",
  "multus-daemon",
];

/** Keys that hold the configurations of further plugins. */
const INNER_PLUGINS = ["plugins", "delegates", "delegate", "ipam"];

/** Reports whether a plugin type is multus. */
export function isOwnType(type: unknown): boolean {
  return OWN_TYPES.includes(type);
}

/** Reports whether a network runs multus, at any level of its configuration. */
export function isOwnConf(conf: NetworkConfList | NetworkConf): boolean {
  const plugins = isList(conf) ? conf.plugins : [conf.plugin];
  return plugins.some(({ document }) => runsMultus(document));
}

/** Compares keys case-insensitively, as plugins do. */
function runsMultus(value: JsonValue): boolean {
  if (Array.isArray(value)) return value.some(runsMultus);
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(([key, item]) => {
    const folded = key.toLowerCase();
    return folded === "type"
      ? isOwnType(item)
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

/** The attachments in progress above a delegate, outermost first. */
const VARIABLE = "CNI_MULTUS_ATTACHMENTS";

/**
 * Limits the nesting. A loop that uses another interface name each time never
 * repeats an attachment.
 */
const MAX_DEPTH = 8;

/**
 * Reports whether one of multus' own delegates, directly or not, called multus
 * for an attachment in progress. STATUS and GC all count as the same attachment.
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
