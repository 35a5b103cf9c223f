/**
 * Distinguishes a second ADD of an attachment from the first ADD.
 *
 * @module
 */

import { basename } from "@std/path/posix";
import { ifPossible } from "../../../base/files/io.ts";
import type { StartingPlugin } from "../../../cni/call/context.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";

/**
 * Reports whether a plugin that is about to be started would attach the container
 * although its interface exists, because an earlier ADD has created it.
 */
export function findsInterface(starting: StartingPlugin): boolean {
  if (!mayAttach(starting)) return false;
  const { CNI_NETNS: netns = "", CNI_IFNAME: ifName = "" } = starting.env;
  return hasInterface(netns, ifName);
}

/**
 * Reports whether a plugin can create the interface: ADD of the first plugin in a
 * list. IPAM plugins and later plugins find an interface of the same ADD.
 */
function mayAttach({ path, env, stdin }: StartingPlugin): boolean {
  if (env["CNI_COMMAND"] !== "ADD") return false;
  const text = new TextDecoder().decode(stdin);
  const { type, prevResult } = ifPossible(() => JSON.parse(text)) ?? {};
  return type === basename(path) && !prevResult;
}

/**
 * Reports whether a namespace contains a link; false if the namespace cannot be
 * opened.
 */
function hasInterface(netns: string, ifName: string): boolean {
  try {
    using sandbox = Rtnl.open(netns);
    return sandbox.link.find(ifName) !== undefined;
  } catch {
    return false;
  }
}
