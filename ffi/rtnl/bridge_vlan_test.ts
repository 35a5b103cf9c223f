import { assertEquals, assertThrows } from "@std/assert";
import {
  changePortVlans,
  needsBridgeVlans,
  portVlans,
} from "../../plugins/bridge/testing/bridge_network.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { NetlinkError } from "../netlink/error.ts";
import type { RawMessage } from "../netlink/message.ts";
import { observeNetlink } from "../netlink/observer.ts";
import { BridgeVlanRequests, type PortVlans } from "./bridge_vlan.ts";
import type { Link } from "./link.ts";
import { Rtnl } from "./mod.ts";

const NATIVE = "1 PVID Egress Untagged";

/** A bridge with VLAN filtering, and a port. */
class Fixture implements Disposable {
  readonly hosts = TestHosts.create();
  readonly rtnl = Rtnl.open(this.hosts.host.path);
  readonly bridge = this.rtnl.link.addBridge({
    name: "br0",
    vlanFiltering: true,
  });
  readonly port = this.addPort("port0");
  readonly requests = new BridgeVlanRequests(this.rtnl.socket);

  addPort(name: string): Link {
    const peer = { netns: this.hosts.sandbox, name };
    const masterIndex = this.bridge.index;
    this.rtnl.link.addVeth({ name, masterIndex, peer });
    return this.rtnl.link.get(name);
  }

  /** The VLANs as iproute2 shows them. */
  shown(name = "port0"): string[] {
    return portVlans(this.hosts.host, name);
  }

  [Symbol.dispose](): void {
    this.rtnl[Symbol.dispose]();
    this.hosts[Symbol.dispose]();
  }
}

function test(name: string, fn: (fixture: Fixture) => void): void {
  rootTest(name, needsBridgeVlans, () => {
    using fixture = new Fixture();
    fn(fixture);
  });
}

test("BridgeVlanRequests adds and deletes what iproute2 sees", (fixture) => {
  const { requests, port: { index } } = fixture;
  assertEquals(fixture.shown(), [NATIVE]);
  requests.add(index, {
    first: 100,
    last: 100,
    isPvid: true,
    isUntagged: true,
  });
  requests.add(index, { first: 200, last: 210 });
  requests.add(index, { first: 300, last: 301, isUntagged: true });
  const access = "100 PVID Egress Untagged";
  const untagged = "300-301 Egress Untagged";
  assertEquals(fixture.shown(), [
    "1 Egress Untagged",
    access,
    "200-210",
    untagged,
  ]);
  requests.del(index, { first: 1, last: 1 });
  requests.del(index, { first: 203, last: 205 });
  // The kernel reports no error for missing VLANs.
  requests.del(index, { first: 1, last: 1 });
  assertEquals(fixture.shown(), [access, "200-202", "206-210", untagged]);
});

test("BridgeVlanRequests.list() has the VLANs of one port", (fixture) => {
  const { requests, port, hosts: { host } } = fixture;
  const other = fixture.addPort("port1");
  changePortVlans(host, "port1", "add vid 7 untagged");
  changePortVlans(host, "port0", "del vid 1");
  changePortVlans(host, "port0", "add vid 20-21");
  const vlan = (
    id: number,
    isPvid: boolean,
    isUntagged: boolean,
  ): PortVlans => ({ first: id, last: id, isPvid, isUntagged });
  assertEquals(requests.list(port.index), [
    vlan(20, false, false),
    vlan(21, false, false),
  ]);
  assertEquals(requests.list(other.index), [
    vlan(1, true, true),
    vlan(7, false, true),
  ]);
});

test("BridgeVlanRequests.list() knows ports with all VLANs, and their neighbours", (fixture) => {
  const { requests, port } = fixture;
  const before = fixture.addPort("port1"), after = fixture.addPort("port2");
  requests.add(port.index, { first: 2, last: 4094 });
  assertEquals(fixture.shown(), [NATIVE, "2-4094"]);
  assertEquals(
    requests.list(port.index).map(({ first }) => first),
    Array.from({ length: 4094 }, (_, at) => at + 1),
  );
  for (const { index } of [before, after]) {
    assertEquals(requests.list(index).map(({ first }) => first), [1]);
  }
});

test("BridgeVlanRequests.list() receives ranges, and keeps one port's", (fixture) => {
  const { requests, port } = fixture;
  for (const name of ["port1", "port2", "port3"]) {
    requests.add(fixture.addPort(name).index, { first: 2, last: 4094 });
  }
  requests.add(port.index, { first: 2, last: 4000 });
  const kept: RawMessage[] = [];
  observeNetlink((_, work) => {
    const outcome = work();
    kept.push(...outcome as RawMessage[]);
    return outcome;
  });
  try {
    assertEquals(requests.list(port.index).length, 4000);
  } finally {
    observeNetlink(undefined);
  }
  const bytes = kept.map(({ body }) => body.length);
  assertEquals([bytes.length, Math.max(...bytes) < 500], [1, true], `${bytes}`);
});

test("BridgeVlanRequests says why the kernel refuses", (fixture) => {
  const { requests, port: { index }, hosts: { host } } = fixture;
  const errnoOf = (fn: () => void): string =>
    assertThrows(fn, NetlinkError).errno;
  for (const id of [0, 4095]) {
    assertEquals(
      errnoOf(() => requests.add(index, { first: id, last: id })),
      "EINVAL",
      `${id}`,
    );
  }
  runIn(host, "ip", "link", "set", "port0", "nomaster");
  assertEquals(
    errnoOf(() => requests.add(index, { first: 7, last: 7 })),
    "EOPNOTSUPP",
  );
  assertEquals(requests.list(index), []);
});
