/**
 * Links with traffic control, and `tc` as the oracle.
 *
 * @module
 */

import { assertThrows } from "@std/assert";
import { Cidr } from "../../net/cidr.ts";
import { intercept } from "../../testing/fault_injector.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { NetlinkError } from "../netlink/error.ts";
import { NetlinkSocket } from "../netlink/socket.ts";
import { inNetns, type NetNs } from "../netns.ts";
import { writeSysctl } from "../sysctl.ts";
import { Rtnl } from "./mod.ts";
import { handleOf, Parent, TrafficControl } from "./traffic_control.ts";
import type { QdiscSettings } from "./traffic_control_qdisc.ts";

/** A link on a temporary host, and traffic control there. */
export class ControlledLink implements Disposable {
  readonly #stack = new DisposableStack();
  readonly host: NetNs;
  readonly traffic: TrafficControl;
  /** Index of `v0`. */
  readonly ifindex: number;
  /** Index of `ifb7`, the target of redirects. */
  readonly other: number;

  constructor() {
    const hosts = this.#stack.use(TestHosts.create());
    const rtnl = this.#stack.use(Rtnl.open(hosts.host.path));
    const peer = { netns: hosts.sandbox, name: "eth0" };
    this.host = hosts.host;
    this.traffic = new TrafficControl(rtnl.socket);
    this.ifindex = rtnl.link.addVeth({ name: "v0", peer }).index;
    this.other = rtnl.link.addIfb({
      name: "ifb7",
      mtu: 1400,
      transmitQueueLength: 0,
    }).index;
  }

  /** Adds a root qdisc with handle 1:. */
  addRoot(settings: QdiscSettings): void {
    const { ifindex } = this;
    const root = { ifindex, parent: Parent.Root, handle: handleOf(1) };
    this.traffic.qdisc.add({ ...root, ...settings });
  }

  /** Runs `tc` for the link. */
  tc(...args: string[]): string {
    return runIn(this.host, "tc", ...args, "dev", "v0").trim();
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

/** Asserts that the kernel refuses something, and returns the errno. */
export function errnoOf(work: () => unknown): string {
  return assertThrows(work, NetlinkError).errno;
}

/** The host, and a socket in it. */
export class TwoPairs implements Disposable {
  readonly #stack = new DisposableStack();
  readonly hosts: TestHosts = this.#stack.use(TestHosts.create());
  readonly rtnl: Rtnl = this.#stack.use(Rtnl.open(this.hosts.host.path));
  /** The index of `veth0`, which has 10.0.0.1/24 and 2001:db8:0::1/64. */
  readonly first: number;
  /** The index of `veth1`, which has 10.0.1.1/24 and 2001:db8:1::1/64. */
  readonly second: number;

  constructor() {
    // Otherwise, link-local addresses and their routes would appear later.
    const key = "net/ipv6/conf/default/addr_gen_mode";
    inNetns(this.hosts.host, () => writeSysctl(key, "1"));
    this.first = this.#addVeth("veth0", 0);
    this.second = this.#addVeth("veth1", 1);
  }

  #addVeth(name: string, at: number): number {
    const { sandbox } = this.hosts;
    const peer = { netns: sandbox, name };
    const { index } = this.rtnl.link.addVeth({ name, peer });
    runIn(sandbox, "ip", "link", "set", name, "up");
    for (const text of [`10.0.${at}.1/24`, `2001:db8:${at}::1/64`]) {
      const address = Cidr.parse(text);
      this.rtnl.address.add({ ifindex: index, address });
    }
    return index;
  }

  /** Runs a command line of iproute2. */
  ip(line: string): void {
    runIn(this.hosts.host, "ip", ...line.split(" "));
  }

  /** Removes everything. */
  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

/** A number that no rtnetlink attribute has yet. */
const FUTURE_ATTRIBUTE = 1000;

/** Appends an unknown attribute to every entry of every list, until disposal. */
export function simulateNewerKernel(): Disposable {
  const stack = new DisposableStack();
  stack.defer(intercept(NetlinkSocket.prototype, "dump", (_args, work) => {
    const answers = work() as { attributes: { unknown?: unknown[] } }[];
    const added = { type: FUTURE_ATTRIBUTE, bytes: new Uint8Array(4) };
    return answers.map(({ attributes, ...answer }) => {
      const unknown = [...attributes.unknown ?? [], added];
      return { ...answer, attributes: { ...attributes, unknown } };
    });
  }));
  return stack;
}
