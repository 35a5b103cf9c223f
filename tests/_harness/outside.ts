/**
 * What lies beyond a temporary host: something to reach, which has no way back
 * to the containers, so that it answers only what is masqueraded.
 *
 * @module
 */

import type { NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Cidr } from "../../net/cidr.ts";
import { findReached } from "../../testing/ip_json.ts";
import type { TestHosts } from "../../testing/test_hosts.ts";

/** The addresses out there. */
export const OUTSIDE: readonly string[] = ["192.0.2.2", "2001:db8:ff::2"];

/** Connects a host with the outside, by an interface that is called `out0`. */
export function connectOutside(hosts: TestHosts): NetNs {
  const netns = hosts.addNetns();
  using host = Rtnl.open(hosts.host.path);
  using outside = Rtnl.open(netns.path);
  const { index, linkIndex = 0 } = host.link.addVeth({
    name: "out0",
    peer: { netns: outside.netns, name: "eth0" },
  });
  const ends = [[host, index, "1"], [outside, linkIndex, "2"]] as const;
  for (const [rtnl, ifindex, last] of ends) {
    rtnl.link.set(ifindex, { isUp: true });
    for (const text of [`192.0.2.${last}/24`, `2001:db8:ff::${last}/64`]) {
      rtnl.address.add({ ifindex, address: Cidr.parse(text) });
    }
  }
  return netns;
}

/** Returns which of the hosts outside reply to a namespace. */
export function reached(from: NetNs): readonly string[] {
  return findReached(from, OUTSIDE);
}
