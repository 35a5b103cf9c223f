/**
 * A client outside the node, for probes of host ports: a temporary namespace behind a
 * link of its own.
 *
 * It has an address for benchmarks (RFC 2544) and a unique local address (RFC 4193). The
 * kernel removes namespace and link even if this process is killed.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";
import { ifPossible } from "../../base/files/io.ts";
import { inNetns, NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { NeighborRequests } from "../../ffi/rtnl/neighbor.ts";
import { Parent, TrafficControl } from "../../ffi/rtnl/traffic_control.ts";
import {
  matchNetwork,
  Protocol,
} from "../../ffi/rtnl/traffic_control_filter.ts";
import { writeSysctl } from "../../ffi/sysctl.ts";
import { Cidr } from "../../net/cidr.ts";
import type { Ip, IpFamily } from "../../net/ip.ts";
import type { NodeReader } from "../node/node_reader.ts";
import { listRouters, listUplinks } from "../node/routers.ts";
import type { PacketOrigin } from "./packet.ts";

/** The node's end of the link, then the client's. */
const ENDS: Readonly<Record<IpFamily, readonly [string, string]>> = {
  4: ["198.18.254.253/30", "198.18.254.254/30"],
  6: ["fd63:6e69:7072:6f62::/127", "fd63:6e69:7072:6f62::1/127"],
};

/** How often to look whether the link is ready, in ms, and how many times at most. */
const LOOK_MS = 5, LOOKS = 400;

/** The client. Dispose of it to remove the link. */
export class OutsideClient implements Disposable {
  readonly #stack: DisposableStack;
  readonly #netns: NetNs;
  /**
   * Where packets start that enter the node by its uplink, as if its router sent them:
   * the router gets the answers. Undefined without an IPv4 router.
   */
  readonly byUplink: PacketOrigin | undefined;

  private constructor(stack: DisposableStack, netns: NetNs, router?: Ip) {
    this.#stack = stack;
    this.#netns = netns;
    this.byUplink = router && { name: "outside", netns, source: router };
  }

  /**
   * Creates a client.
   *
   * @throws {SyscallError} EPERM without CAP_NET_ADMIN
   */
  static async create(node: Pick<NodeReader, "host">): Promise<OutsideClient> {
    const { host } = node;
    using stack = new DisposableStack();
    const netns = stack.use(NetNs.create());
    using client = Rtnl.open(netns.path);
    const name = `cniprobe${crypto.randomUUID().slice(0, 6)}`;
    const { index, linkIndex = 0 } = host.link.addVeth({
      name,
      peer: { netns, name: "eth0" },
    });
    stack.defer(() => void host.link.ensureGone(index));
    const ends = [
      { rtnl: host, ifindex: index, link: name },
      { rtnl: client, ifindex: linkIndex, link: "eth0" },
    ];
    const families = ([4, 6] as const).filter((family) =>
      family === 4 || host.address.list({ family }).length > 0
    );
    for (const [at, { rtnl, ifindex, link }] of ends.entries()) {
      for (const family of families) {
        const address = Cidr.parse(ENDS[family][at] ?? "");
        rtnl.address.add({ ifindex, address });
      }
      // Without DAD, the link resolves neighbours for forwarded packets immediately.
      const key = `net/ipv6/conf/${link}/accept_dad`;
      ifPossible(() => inNetns(rtnl.netns, () => writeSysctl(key, "0")));
      rtnl.link.set(ifindex, { isUp: true });
    }
    for (const family of families) {
      client.route.add({
        ifindex: linkIndex,
        destination: Cidr.parse(family === 4 ? "0.0.0.0/0" : "::/0"),
        gateway: Cidr.parse(ENDS[family][0]).ip,
      });
    }
    const router = ifPossible(() =>
      enterByUplink(node, index, { client, ifindex: linkIndex })
    );
    // The kernel activates a link a little later, and its IPv6 addresses after that.
    for (let left = LOOKS; left > 0 && !ends.every(isReady); left--) {
      await pause(LOOK_MS);
    }
    return new OutsideClient(stack.move(), netns, router);
  }

  /** Returns where its packets of a family start. */
  origin(family: IpFamily): PacketOrigin {
    const source = Cidr.parse(ENDS[family][1]).ip;
    return { name: "outside", netns: this.#netns, source };
  }

  /** Removes the link and the namespace. */
  [Symbol.dispose](): void {
    this.#stack[Symbol.dispose]();
  }
}

/**
 * Gives the client the address of the node's router, and has the uplink receive what
 * the client sends from there: rules that name the uplink match it.
 *
 * @param index Index of the node's end of the link
 * @returns The router; undefined without one
 * @throws {NetlinkError} ENOENT if the kernel has no filters that redirect packets
 */
function enterByUplink(
  node: Pick<NodeReader, "host">,
  index: number,
  { client, ifindex }: { readonly client: Rtnl; readonly ifindex: number },
): Ip | undefined {
  const { host } = node;
  const [uplink] = listUplinks(node);
  const [router] = listRouters(node, 4);
  const { mac } = host.link.get(index);
  if (uplink === undefined || router === undefined || mac === undefined) {
    return undefined;
  }
  const address = new Cidr(router, router.bitLength);
  const { qdisc, filter } = new TrafficControl(host.socket);
  qdisc.add({ kind: "clsact", ifindex: index, parent: Parent.Ingress });
  filter.add({
    ifindex: index,
    parent: Parent.ClsactIngress,
    priority: 1,
    protocol: Protocol.Ipv4,
    keys: matchNetwork(address, "source"),
    classId: 0,
    redirectTo: uplink.index,
    isReceived: true,
  });
  client.address.add({ ifindex, address });
  // The node must not learn that the router is behind this link.
  const near = Cidr.parse(ENDS[4][0]).ip;
  new NeighborRequests(client.socket).replace(ifindex, near, mac);
  return router;
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
