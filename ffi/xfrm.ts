/**
 * The IPsec policies of a namespace.
 *
 * Source: include/uapi/linux/xfrm.h.
 *
 * @module
 */

import { i32, struct, u16, u16be, u32, u32be, u64, u8 } from "../net/bytes.ts";
import { Cidr } from "../net/cidr.ts";
import { Ip, type IpFamily } from "../net/ip.ts";
import { attributeSet, raw } from "./netlink/attribute.ts";
import { message } from "./netlink/message.ts";
import { NetlinkSocket } from "./netlink/socket.ts";
import { NetNs } from "./netns.ts";

/** Source: include/uapi/linux/netlink.h `NETLINK_XFRM`; socket.h `AF_INET6`. */
const NETLINK_XFRM = 6, AF_INET6 = 10;
/** Source: `XFRM_POLICY_BLOCK`. */
const BLOCK = 1;

/** The directions, by number. Source: `XFRM_POLICY_IN`, `_OUT`, `_FWD`. */
const DIRECTIONS = ["in", "out", "fwd"] as const;

/** An address of either family. Source: `xfrm_address_t`. */
const address = struct({
  first: u32be,
  second: u32be,
  third: u32be,
  fourth: u32be,
});

/** The words of an address. */
interface Words {
  readonly first?: number;
  readonly second?: number;
  readonly third?: number;
  readonly fourth?: number;
}

/**
 * Source: `struct xfrm_selector`, whose addresses have the alignment of 32-bit
 * integers.
 */
const selector = struct({
  destination: address,
  source: address,
  destinationPort: u16be,
  destinationPortMask: u16be,
  sourcePort: u16be,
  sourcePortMask: u16be,
  family: u16,
  destinationLength: u8,
  sourceLength: u8,
  protocol: u8,
  ifindex: i32,
  user: u32,
});

/** Source: `struct xfrm_lifetime_cfg`, `struct xfrm_lifetime_cur`. */
const limits = struct({ a: u64, b: u64, c: u64, d: u64 });

/** Source: `struct xfrm_userpolicy_info`. */
const policyInfo = struct({
  selector,
  softAndHard: limits,
  inTime: limits,
  current: limits,
  priority: u32,
  index: u32,
  direction: u8,
  action: u8,
  flags: u8,
  share: u8,
});

/** Source: `struct xfrm_userpolicy_id`. */
const policyId = struct({ selector, index: u32, direction: u8 });

/** Source: `XFRMA_TMPL`, `XFRMA_MARK`, `XFRMA_IF_ID`. */
const policyAttributes = attributeSet({
  templates: [5, raw],
  mark: [21, raw],
  interfaceId: [31, u32],
});

const newPolicy = message(
  "XFRM_MSG_NEWPOLICY",
  0x13,
  policyInfo,
  policyAttributes,
);
const getPolicy = message(
  "XFRM_MSG_GETPOLICY",
  0x15,
  policyId,
  attributeSet({}),
);

/** An IPsec policy. */
export interface XfrmPolicy {
  readonly direction: (typeof DIRECTIONS)[number];
  /** Whether it drops packets. */
  readonly isBlock: boolean;
  /** Whether it requires IPsec. */
  readonly isProtected: boolean;
  /** The priority; lower priorities come first. */
  readonly priority: number;
  readonly source: Cidr;
  readonly destination: Cidr;
  /** Whether it applies only to some packets of these addresses. */
  readonly isNarrow: boolean;
}

/**
 * Lists the policies of a namespace, except socket policies.
 *
 * @throws {SyscallError} EPROTONOSUPPORT if the kernel has no IPsec, EPERM
 *   without CAP_NET_ADMIN
 */
export function listXfrmPolicies(path: string): XfrmPolicy[] {
  using netns = NetNs.open(path);
  using socket = NetlinkSocket.open(netns, NETLINK_XFRM);
  return socket.dump(getPolicy, { header: {} }, newPolicy)
    .flatMap(({ header, attributes }): XfrmPolicy[] => {
      const direction = DIRECTIONS[header.direction ?? -1];
      const { selector: packets } = header;
      if (direction === undefined || packets === undefined) return [];
      const { family, protocol, ifindex } = packets;
      const { source = {}, sourceLength = 0 } = packets;
      const { destination = {}, destinationLength = 0 } = packets;
      const of = family === AF_INET6 ? 6 : 4;
      return [{
        direction,
        isBlock: header.action === BLOCK,
        isProtected: attributes.templates !== undefined,
        priority: header.priority ?? 0,
        source: toCidr(of, source, sourceLength),
        destination: toCidr(of, destination, destinationLength),
        isNarrow: Boolean(
          protocol || ifindex || packets.sourcePortMask ||
            packets.destinationPortMask || attributes.mark ||
            attributes.interfaceId,
        ),
      }];
    });
}

function toCidr(
  family: IpFamily,
  { first = 0, second = 0, third = 0, fourth = 0 }: Words,
  length: number,
): Cidr {
  const words = family === 6 ? [first, second, third, fourth] : [first];
  const value = words.reduce((sum, word) => sum << 32n | BigInt(word), 0n);
  return Cidr.of(Ip.fromValue(family, value), length);
}
