/**
 * Kinds of links that not every kernel has.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { NetNs } from "../../ffi/netns.ts";
import {
  canUseNetns,
  ignoreUnless,
  type Needs,
} from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";

/** What `ip link add` needs for each kind, on a host with the link `up0`. */
const KINDS: Readonly<Record<string, string>> = {
  "bandwidth": "name x0 type ifb",
  "dummy": "name x0 type dummy",
  "ipvlan": "link up0 name x0 type ipvlan",
  "macvlan": "link up0 name x0 type macvlan",
  "vlan": "link up0 name x0 type vlan id 5",
  "vrf": "name x0 type vrf table 10",
};

const found = new Map<string, boolean>();

/**
 * Skips tests of plugins whose links the kernel lacks; `deno task test:kernel`
 * has a kernel with all of them.
 *
 * @param types Types of plugins; others than those above need nothing
 */
export function needsLinks(...types: readonly string[]): Needs {
  const missing = types.filter((type) => !canMake(type));
  const reason = `needs a kernel with ${missing.join(", ")}`;
  return ignoreUnless(missing.length === 0, reason);
}

function canMake(type: string): boolean {
  const args = KINDS[type];
  if (args === undefined || !canUseNetns) return true;
  const known = found.get(type) ?? tryToMake(args);
  found.set(type, known);
  return known;
}

function tryToMake(args: string): boolean {
  using netns = NetNs.create();
  runIn(netns, "ip", "link", "add", "up0", "type", "veth");
  const add = ["link", "add", ...args.split(" ")];
  return ifPossible(() => runIn(netns, "ip", ...add)) !== undefined;
}
