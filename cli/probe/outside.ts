/**
 * A client outside of the node: a temporary namespace behind a link of its own, from
 * which the node's ports are tried.
 *
 * It has an address for benchmarks (RFC 2544), or one that is unique (RFC 4193). It ends
 * with this process, whatever ends that.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";
import { ifPossible } from "../../base/files/io.ts";
import { inNetns, NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { writeSysctl } from "../../ffi/sysctl.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import type { Node } from "../doctor/node.ts";
import type { Origin } from "./packet.ts";

/** The node's end of the link, then the client's. */
const ENDS: Readonly<Record<IpFamily, readonly [string, string]>> = {
  4: ["198.18.254.253/30", "198.18.254.254/30"],
  6: ["fd63:6e69:7072:6f62::/127", "fd63:6e69:7072:6f62::1/127"],
};

/** How long to wait for the link, and how often to look, in ms. */
const ACTIVATION_MS = 2000, LOOK_MS = 5;

/** The client. Dispose of it to remove the link. */
export class OutsideClient implements Disposable {
  readonly #stack: DisposableStack;
  readonly #netns: NetNs;
  /** Name of the node's end of the link. */
  readonly link: string;

  private constructor(stack: DisposableStack, netns: NetNs, link: string) {
    this.#stack = stack;
    this.#netns = netns;
    this.link = link;
  }

  /**
   * Creates a client.
   *
   * @throws {SyscallError} EPERM without CAP_NET_ADMIN
   */
  static async create({ host }: Pick<Node, "host">): Promise<OutsideClient> {
    using stack = new DisposableStack();
    const netns = stack.use(NetNs.create());
    using client = Rtnl.open(netns.path);
    const name = `cniprobe${crypto.randomUUID().slice(0, 6)}`;
    const { index, linkIndex = 0 } = host.link.addVeth({
      name,
      peer: { netns, name: "eth0" },
    });
    stack.defer(() => void host.link.ensureGone(index));
    for (const family of [4, 6] as const) {
      const [near = "", far = ""] = ENDS[family];
      if (family === 6 && host.address.list({ family }).length === 0) continue;
      host.address.add({ ifindex: index, address: Cidr.parse(near) });
      client.address.add({ ifindex: linkIndex, address: Cidr.parse(far) });
    }
    // Else it resolves no neighbour for what is forwarded before DAD is over.
    for (
      const [netns, link] of [[host.netns, name], [
        client.netns,
        "eth0",
      ]] as const
    ) {
      ifPossible(() =>
        inNetns(
          netns,
          () => writeSysctl(`net/ipv6/conf/${link}/accept_dad`, "0"),
        )
      );
    }
    host.link.set(index, { isUp: true });
    client.link.set(linkIndex, { isUp: true });
    for (const family of [4, 6] as const) {
      const [near = ""] = ENDS[family];
      if (client.address.list({ family }).length === 0) continue;
      client.route.add({
        ifindex: linkIndex,
        destination: Cidr.parse(family === 4 ? "0.0.0.0/0" : "::/0"),
        gateway: Ip.parse(near.replace(/\/.*/, "")),
      });
    }
    // The kernel activates a link a little later, and its IPv6 addresses after that.
    const ends = [
      { rtnl: host, ifindex: index },
      { rtnl: client, ifindex: linkIndex },
    ];
    const end = performance.now() + ACTIVATION_MS;
    while (!ends.every(isReady) && performance.now() < end) {
      await pause(LOOK_MS);
    }
    return new OutsideClient(stack.move(), netns, name);
  }

  /** Returns where its packets of a family start. */
  origin(family: IpFamily): Origin {
    const [, far] = ENDS[family];
    const source = Cidr.parse(far).ip;
    return { name: "outside", netns: this.#netns, source };
  }

  /** Removes the link and the namespace. */
  [Symbol.dispose](): void {
    this.#stack[Symbol.dispose]();
  }
}

/**
 * Reports whether a link sends, and answers for its addresses. For an IPv6 address the
 * kernel joins the group in which neighbours ask for it before it adds the local route.
 *
 * Source: net/ipv6/addrconf.c `addrconf_dad_begin`, `__ipv6_ifa_notify`.
 */
function isReady(
  { rtnl, ifindex }: { readonly rtnl: Rtnl; readonly ifindex: number },
): boolean {
  return rtnl.link.find(ifindex)?.isOperational === true &&
    rtnl.address.list({ ifindex, family: 6 }).every(({ address }) =>
      rtnl.route.findMatch(address.ip)?.type === "local"
    );
}
