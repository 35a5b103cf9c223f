/**
 * The configuration of most tests of ptp.
 *
 * @module
 */

import type { TestHosts } from "../../testing/test_hosts.ts";

/** A configuration for one subnet each of IPv4 and IPv6. */
export function dualStack(
  hosts: TestHosts,
  extras: Readonly<Record<string, unknown>> = {},
): {
  cniVersion: string;
  name: string;
  type: string;
  ipam: Record<string, unknown>;
} {
  return {
    cniVersion: "1.1.0",
    name: "net1",
    type: "ptp",
    ipam: {
      ...hosts.hostLocal("10.1.2.0/24", "2001:db8:1::/64"),
      routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
    },
    ...extras,
  };
}
