/**
 * Policies of IPsec that drop what configured networks send or receive.
 *
 * @module
 */

import { isErrno } from "../../ffi/errno.ts";
import { listXfrmPolicies, type XfrmPolicy } from "../../ffi/xfrm.ts";
import type { Cidr } from "../../net/cidr.ts";
import { type Check, error, type Findings, removal } from "./finding.ts";
import type { Node } from "./node.ts";
import { describeUnforwarded, listRouted, quoteNetworks } from "./routed.ts";

/** Finds policies of IPsec that drop what networks send or receive. */
function findBlockingPolicies(node: Node): Findings {
  const policies = listPolicies(node.hostNetns);
  const blocks = policies.filter((one) =>
    one.isBlock && one.direction !== "in" && !one.isNarrow &&
    // Which one a packet meets first depends on the packet.
    !policies.some(({ isBlock, direction, priority }) =>
      !isBlock && direction === one.direction && priority <= one.priority
    )
  );
  return blocks.flatMap(({ direction, source, destination }) => {
    const own = listRouted(node).filter(({ subnet }) =>
      covers(source, subnet) && destination.prefixLength === 0 ||
      covers(destination, subnet) && source.prefixLength === 0
    );
    if (own.length === 0) return [];
    const networks = quoteNetworks(own);
    const policy = `src ${source} dst ${destination} dir ${direction}`;
    return [error(
      `the IPsec policy "${policy}" drops packets of ${networks}`,
      describeUnforwarded(networks),
      removal(`ip xfrm policy delete ${policy}`, "ip xfrm policy"),
    )];
  });
}

function covers(wide: Cidr, subnet: Cidr): boolean {
  return wide.family === subnet.family && wide.containsCidr(subnet);
}

/** Lists the policies; none if the kernel has no IPsec. */
function listPolicies(netns: string): XfrmPolicy[] {
  try {
    return listXfrmPolicies(netns);
  } catch (error) {
    if (isErrno(error, "EPROTONOSUPPORT")) return [];
    throw error;
  }
}

/** Checks of IPsec. */
export const IPSEC_CHECKS: readonly Check[] = [
  {
    code: "CNI0611",
    name: "ipsec-blocks",
    finds: "a policy of IPsec drops all packets of a network",
    page: {
      effect:
        "Containers of the network do not reach others, or are not reached.",
      cause:
        "A policy of a VPN against packets that leave without encryption, " +
        "or one that a program has left.",
      look: "`ip xfrm policy`, and `XfrmInPolBlock` and `XfrmOutPolBlock` in " +
        "/proc/net/xfrm_stat.",
      fix: "Exclude the network's subnet in the VPN's configuration.",
    },
    run: findBlockingPolicies,
  },
];
