/**
 * IPv6 addresses that another container still has: a virtual machine that
 * migrates has them on both nodes. The machine's own messages pass: it is behind
 * a bridge in the sandbox.
 *
 * @module
 */

import { describeError } from "../../../base/error.ts";
import type { Rollback } from "../../../base/rollback.ts";
import type { Call } from "../../../cni/plugin.ts";
import type { Result } from "../../../cni/result/result.ts";
import {
  addChain,
  addTable,
  appendRule,
  delTableOf,
} from "../../../ffi/nftables/change.ts";
import {
  decide,
  matchAdvertisement,
  matchNetwork,
  matchOutputName,
} from "../../../ffi/nftables/expression.ts";
import { Cidr } from "../../../net/cidr.ts";
import { getNftables } from "../firewall/open_nftables.ts";

/**
 * Drops the kernel's advertisements of IPv6 addresses, which it sends as soon
 * as a neighbour asks, and its multicast listener reports for them, which it
 * sends at once. There is no sysctl for either. An interface without a
 * link-local address reports from the unspecified address.
 */
export function hideFromNeighbours(
  { args: { netns, ifName }, log }: Pick<Call, "args" | "log">,
  { ips }: Pick<Result, "ips">,
  rollback: Rollback,
): void {
  const hidden = ips.map(({ address }) => address.ip)
    .filter(({ family }) => family === 6);
  if (hidden.length === 0) return;
  const table = { family: "ip6", name: `cni_quiet_${ifName}` } as const;
  const hook = { type: "filter", hook: "output", priority: 0 } as const;
  try {
    using nftables = getNftables(netns);
    rollback.onFailure("remove the rules for quiet addresses", () => {
      using nftables = getNftables(netns);
      // It may not have come to the table.
      nftables.commit([addTable(table), delTableOf(table)]);
    });
    nftables.commit([
      addTable(table),
      delTableOf(table),
      addTable(table),
      addChain(table, "output", hook),
      appendRule(table, {
        chain: "output",
        expressions: [
          ...matchOutputName(ifName),
          ...matchNetwork("source", "==", Cidr.parse("::/128")),
          decide("drop"),
        ],
      }),
      ...hidden.map((ip) =>
        appendRule(table, {
          chain: "output",
          expressions: [...matchAdvertisement(ip), decide("drop")],
        })
      ),
    ]);
  } catch (error) {
    log.warn("Neighbours might learn an address before the container uses it", {
      error: describeError(error),
    });
  }
}
