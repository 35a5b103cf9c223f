/**
 * Links with traffic control, and `tc` as the oracle.
 *
 * @module
 */

import { assertThrows } from "@std/assert";
import { NetlinkError } from "../../ffi/netlink/error.ts";
import type { NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import {
  handleOf,
  Parent,
  TrafficControl,
} from "../../ffi/rtnl/traffic_control.ts";
import type { QdiscSettings } from "../../ffi/rtnl/traffic_control_qdisc.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";

/** A link on a throw-away host, and traffic control there. */
export class ControlledLink implements Disposable {
  readonly #stack = new DisposableStack();
  readonly host: NetNs;
  readonly traffic: TrafficControl;
  /** Of `v0`. */
  readonly ifindex: number;
  /** Of `ifb7`, to redirect to. */
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
