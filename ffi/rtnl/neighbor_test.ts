import { assert, assertEquals, assertThrows } from "@std/assert";
import { Ip } from "../../net/ip.ts";
import { Mac } from "../../net/mac.ts";
import { ignoreUnless, rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { NetlinkError } from "../netlink/error.ts";
import { Rtnl } from "./mod.ts";
import { type ForwardingEntry, NeighborRequests } from "./neighbor.ts";

const IPV4 = Ip.parse("10.1.2.3");
const IPV6 = Ip.parse("2001:db8::3");
const MAC = Mac.parse("0a:58:0a:01:02:03");
const OTHER_MAC = Mac.parse("0a:58:0a:01:02:04");

/** A host with two veth pairs. */
class Fixture implements Disposable {
  readonly #stack = new DisposableStack();
  readonly hosts = this.#stack.use(TestHosts.create());
  readonly rtnl = this.#stack.use(Rtnl.open(this.hosts.host.path));
  readonly first: number = this.#addVeth("veth0");
  readonly second: number = this.#addVeth("veth1");

  #addVeth(name: string): number {
    const peer = { netns: this.hosts.sandbox, name };
    return this.rtnl.link.addVeth({ name, peer }).index;
  }

  /** Lists the permanent neighbours as `ip` shows them. */
  show(): string[] {
    const { host } = this.hosts;
    return ipJson(host, "neighbor", "show", "nud", "permanent").map((
      // deno-lint-ignore no-explicit-any -- as ip prints it
      { dst, dev, lladdr, state }: any,
    ) => `${dst} ${dev} ${lladdr} ${state}`).sort();
  }

  errnoOf(work: () => void): string {
    return assertThrows(work, NetlinkError).errno;
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

rootTest("NeighborRequests.replace() configures neighbours for good", () => {
  using fixture = new Fixture();
  const neighbor = new NeighborRequests(fixture.rtnl.socket);
  neighbor.replace(fixture.first, IPV4, OTHER_MAC);
  neighbor.replace(fixture.first, IPV4, MAC);
  neighbor.replace(fixture.second, IPV4, OTHER_MAC);
  neighbor.replace(fixture.second, IPV6, MAC);
  assertEquals(fixture.show(), [
    `10.1.2.3 veth0 ${MAC} PERMANENT`,
    `10.1.2.3 veth1 ${OTHER_MAC} PERMANENT`,
    `2001:db8::3 veth1 ${MAC} PERMANENT`,
  ]);
});

rootTest("NeighborRequests.del() forgets that neighbour alone", () => {
  using fixture = new Fixture();
  const neighbor = new NeighborRequests(fixture.rtnl.socket);
  for (const ip of [IPV4, IPV6]) {
    for (const ifindex of [fixture.first, fixture.second]) {
      neighbor.replace(ifindex, ip, MAC);
    }
    neighbor.del(fixture.first, ip);
    assertEquals(
      fixture.errnoOf(() => neighbor.del(fixture.first, ip)),
      "ENOENT",
    );
  }
  assertEquals(fixture.show(), [
    `10.1.2.3 veth1 ${MAC} PERMANENT`,
    `2001:db8::3 veth1 ${MAC} PERMANENT`,
  ]);
});

rootTest("NeighborRequests.list() lists by link and family", () => {
  using fixture = new Fixture();
  const { rtnl, hosts, first, second } = fixture;
  const neighbor = new NeighborRequests(rtnl.socket);
  neighbor.replace(first, IPV4, MAC);
  neighbor.replace(second, IPV6, MAC);
  const stale = ["10.1.2.9", "dev", "veth0", "lladdr", String(OTHER_MAC)];
  runIn(hosts.host, "ip", "neighbor", "add", ...stale, "nud", "stale");
  const list = (filter?: Parameters<typeof neighbor.list>[0]): string[] =>
    neighbor.list(filter)
      // The kernel adds IPv6 multicast neighbours by itself.
      .filter(({ ip }) => !ip.isMulticast)
      .map(({ ifindex, ip, mac, isPermanent }) =>
        [ifindex, ip, mac, isPermanent].join(" ")
      ).sort();
  const permanent = `${first} ${IPV4} ${MAC} true`;
  const temporary = `${first} 10.1.2.9 ${OTHER_MAC} false`;
  const other = `${second} ${IPV6} ${MAC} true`;
  assertEquals(list(), [temporary, permanent, other].sort());
  assertEquals(list({ ifindex: first }), [temporary, permanent].sort());
  assertEquals(list({ family: 6 }), [other]);
  assertEquals(list({ family: 6, ifindex: first }), []);
});

rootTest("NeighborRequests.listForwarding() has ports and MACs", () => {
  using fixture = new Fixture();
  const { hosts: { host }, rtnl } = fixture;
  runIn(host, "ip", "link", "add", "br0", "type", "bridge");
  runIn(host, "ip", "link", "set", "veth0", "master", "br0");
  const add = ["fdb", "add", `${MAC}`, "dev", "veth0", "master", "static"];
  runIn(host, "bridge", ...add);
  const found = new NeighborRequests(rtnl.socket).listForwarding()
    .filter(({ mac }) => mac.hex === MAC.hex);
  const { index: bridgeIndex, mac: own } = rtnl.link.get("br0");
  const entry = {
    ifindex: fixture.first,
    bridgeIndex,
    mac: MAC,
    isStatic: true,
  };
  assertEquals(found, [entry]);
  assert(own !== undefined);
  const neighbor = new NeighborRequests(rtnl.socket);
  const find = (mac: Mac): ForwardingEntry | undefined =>
    neighbor.findForwarding(bridgeIndex, mac);
  assertEquals([find(MAC), find(Mac.random())], [entry, undefined]);
  // The kernel gave the bridge the MAC of its port.
  assertEquals(find(own)?.ifindex, fixture.first);
});

rootTest("NeighborRequests.list() has no MAC before the reply", () => {
  using fixture = new Fixture();
  const { rtnl, hosts, first } = fixture;
  const neighbor = new NeighborRequests(rtnl.socket);
  runIn(
    hosts.host,
    "ip",
    "neighbor",
    "add",
    String(IPV4),
    "dev",
    "veth0",
    "nud",
    "incomplete",
  );
  assertEquals(neighbor.list({ ifindex: first, family: 4 }), [
    {
      ifindex: first,
      ip: IPV4,
      mac: undefined,
      isPermanent: false,
      isReachable: false,
    },
  ]);
});

rootTest("NeighborRequests throws what the kernel says", () => {
  using fixture = new Fixture();
  const neighbor = new NeighborRequests(fixture.rtnl.socket);
  const errnos = [
    () => neighbor.replace(999, IPV4, MAC),
    () => neighbor.del(999, IPV4),
    () => neighbor.del(fixture.first, IPV6),
  ].map(fixture.errnoOf);
  assertEquals(errnos, ["ENODEV", "ENODEV", "ENOENT"]);
});

rootTest("NeighborRequests.addProxy() answers on a link", () => {
  using fixture = new Fixture();
  const neighbor = new NeighborRequests(fixture.rtnl.socket);
  for (const ip of [IPV4, IPV6, IPV6]) neighbor.addProxy(fixture.first, ip);
  const shown = ["-4", "-6"].flatMap((family) =>
    ipJson(fixture.hosts.host, family, "neighbor", "show", "proxy")
  ).map(({ dst, dev }) => `${dst} ${dev}`);
  assertEquals(shown, ["10.1.2.3 veth0", "2001:db8::3 veth0"]);
  assertEquals(neighbor.listProxies(fixture.first, 6).map(String), [
    "2001:db8::3",
  ]);
  assertEquals(neighbor.listProxies(fixture.second, 4), []);
  assertEquals(fixture.errnoOf(() => neighbor.addProxy(9999, IPV6)), "ENODEV");
});

const [major = 0, minor = 0] = Deno.osRelease().split(".").map(Number);

rootTest(
  "NeighborRequests.addProxy() lasts when the link has no carrier",
  ignoreUnless(major > 6 || major === 6 && minor >= 17, "needs Linux 6.17"),
  async () => {
    using fixture = new Fixture();
    const { first, rtnl, hosts } = fixture;
    const neighbor = new NeighborRequests(rtnl.socket);
    const setCarrier = (state: "up" | "down"): Promise<void> => {
      runIn(hosts.sandbox, "ip", "link", "set", "veth0", state);
      return eventually(
        `the kernel knows that the carrier is ${state}`,
        () => rtnl.link.get("veth0").isOperational === (state === "up"),
      );
    };
    rtnl.link.set(first, { isUp: true });
    await setCarrier("up");
    for (const ip of [IPV4, IPV6]) neighbor.addProxy(first, ip);
    await setCarrier("down");
    for (const ip of [IPV4, IPV6]) {
      assertEquals(neighbor.listProxies(first, ip.family).map(String), [
        String(ip),
      ]);
    }
  },
);
