import {
  assert,
  assertEquals,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import { needsUserNamespaces, rootTest } from "../../testing/capabilities.ts";
import { startUserNamespace } from "../testing.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { SyscallError } from "../errno.ts";
import { Fd } from "../file/fd.ts";
import { inNetns, NetNs } from "../netns.ts";
import { getAddress, newAddress } from "../rtnl/address_message.ts";
import { AF_INET } from "../rtnl/constants.ts";
import type { Link } from "../rtnl/link.ts";
import { delLink, getLink, newLink } from "../rtnl/link_message.ts";
import { Rtnl } from "../rtnl/mod.ts";
import { NeighborRequests } from "../rtnl/neighbor.ts";
import { getRoute, newRoute } from "../rtnl/route_message.ts";
import { NetlinkError } from "./error.ts";
import { Flag } from "./message.ts";
import { encodeRequest } from "./request.ts";
import { NetlinkSocket, Protocol } from "./socket.ts";
import { asModule } from "../../tests/_harness/as_module.ts";
import { eachRow } from "../../tests/_harness/table.ts";

/** A temporary host with a veth pair to its sandbox, and the tested socket. */
class Fixture implements Disposable {
  readonly #stack = new DisposableStack();
  readonly hosts = this.#stack.use(TestHosts.create());
  readonly rtnl = this.#stack.use(Rtnl.open(this.hosts.host.path));
  readonly socket = this.#stack.use(
    NetlinkSocket.open(this.hosts.host, Protocol.Route),
  );
  readonly link: Link = this.rtnl.link.addVeth({
    name: "veth0",
    peer: { netns: this.hosts.sandbox, name: "eth0" },
  });

  /** Gives the veth pair this many addresses. */
  addAddresses(count: number): void {
    for (let i = 0; i < count; i++) this.rtnl.address.add(this.addressAt(i));
  }

  readonly addressAt = (i: number): { ifindex: number; address: Cidr } => {
    const first = Ip.parse("10.20.0.0");
    const address = Cidr.host(first.add(BigInt(i)));
    return { ifindex: this.link.index, address };
  };

  /**
   * Dumps the IPv4 addresses.
   *
   * @param onAddress Called before each is decoded
   */
  dumpAddresses(onAddress: () => void = (): void => {}): Ip[] {
    const answers: typeof newAddress = {
      ...newAddress,
      decode(body): ReturnType<typeof newAddress.decode> {
        onAddress();
        return newAddress.decode(body);
      },
    };
    const request = { header: { family: AF_INET } };
    return this.socket.dump(getAddress, request, answers)
      .flatMap(({ attributes }) => attributes.local ?? []);
  }

  /** Dumps the IPv4 addresses, or some of them; and whether it is all of them. */
  dumpSomeAddresses(): [ips: Ip[], isComplete: boolean] {
    const request = { header: { family: AF_INET } };
    const { items, isComplete } = this.socket
      .dumpSome(getAddress, request, newAddress);
    const ips = items.flatMap(({ attributes }) => attributes.local ?? []);
    return [ips, isComplete];
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

/** So many addresses that the kernel has not listed all when the first part arrives. */
const LONG_DUMP = 1500;

function unique(ips: readonly Ip[]): number {
  return new Set(ips.map(String)).size;
}

rootTest("NetlinkSocket stays in the namespace where it was opened", () => {
  using fixture = new Fixture();
  const request = { header: {}, attributes: { name: "veth0" } };
  const [link] = fixture.socket.request(getLink, request, newLink);
  assertEquals(link?.header.index, fixture.link.index);
  using sandbox = NetlinkSocket.open(fixture.hosts.sandbox, Protocol.Route);
  const error = assertThrows(
    () => sandbox.request(getLink, request, newLink),
    NetlinkError,
  );
  assertEquals(error.errno, "ENODEV");
});

rootTest("NetlinkSocket.open() fails cleanly with the kernel's text", () => {
  using hosts = TestHosts.create();
  using other = NetNs.open("/proc/self/ns/uts");
  const rows: [NetNs, number, string][] = [
    [hosts.host, 31, "socket: EPROTONOSUPPORT"],
    [other, Protocol.Route, "setns: EINVAL"],
  ];
  for (const [netns, protocol, message] of rows) {
    const error = assertThrows(
      () => NetlinkSocket.open(netns, protocol),
      SyscallError,
    );
    assertEquals(error.message, message);
  }
});

rootTest("NetlinkSocket receives lists up to its limit", () => {
  using hosts = TestHosts.create();
  const count = (most: number): number => {
    using socket = NetlinkSocket.open(hosts.host, Protocol.Route, most);
    return socket.dump(getLink, { header: {} }, newLink).length;
  };
  const links = count(Infinity);
  assertEquals(count(links + 1), links);
  const error = assertThrows(() => count(0), NetlinkError);
  assertEquals(
    error.message,
    "RTM_GETLINK list: EMSGSIZE: more than 0 answers",
  );
});

/** Lists the ports of the rtnetlink sockets in a namespace. */
function rtnetlinkPorts(netns: NetNs): string[] {
  const table = inNetns(
    netns,
    () => Deno.readTextFileSync("/proc/thread-self/net/netlink"),
  );
  return table.trim().split("\n").slice(1).map((line) => line.split(/\s+/))
    .filter(([, protocol, port]) => protocol === "0" && port !== "0")
    .map(([, , port = ""]) => port);
}

const userns = needsUserNamespaces();

rootTest(
  "NetlinkSocket accepts replies from the kernel only",
  userns,
  async () => {
    // Root of a user namespace may send to any socket in its namespaces.
    await using container = await startUserNamespace();
    using netns = NetNs.open(`/proc/${container.pid}/ns/net`);
    using socket = NetlinkSocket.open(netns, Protocol.Route);
    // The request binds the socket if it is not bound yet.
    socket.request(getLink, { header: { index: 1 } }, newLink);
    const ports = rtnetlinkPorts(netns);
    assertEquals(ports.length, 1);
    const forged = runIn(
      netns,
      "nsenter",
      ...["--preserve-credentials", `--user=/proc/${container.pid}/ns/user`],
      ...[Deno.execPath(), "run", "-A", "--no-check", FORGE, ...ports],
    );
    const answers = socket.dump(getAddress, { header: {} }, newAddress);
    assertEquals(answers.map(({ attributes }) => String(attributes.local)), []);
    assertEquals(forged, "ECONNREFUSED\n");
  },
);

const FORGE = new URL(
  "./testing/forge_answers.ts",
  import.meta.url,
).pathname;

rootTest("NetlinkSocket closes once", () => {
  using hosts = TestHosts.create();
  const socket = NetlinkSocket.open(hosts.host, Protocol.Route);
  socket[Symbol.dispose]();
  socket[Symbol.dispose]();
  assertThrows(
    () => socket.request(getLink, { header: { index: 1 } }),
    Error,
    "Cannot use a closed descriptor",
  );
});

rootTest("NetlinkSocket.request() returns messages of one kind", () => {
  using fixture = new Fixture();
  const request = { header: { index: 1 } };
  const { socket } = fixture;
  assertEquals(socket.request(getLink, request, newLink).length, 1);
  assertEquals(socket.request(getLink, request, newAddress), []);
  assertEquals(socket.request(getLink, request), []);
});

rootTest("NetlinkSocket.request() throws the kernel's text", async (t) => {
  using fixture = new Fixture();
  const { rtnl, link, socket } = fixture;
  const ifindex = link.index;
  rtnl.address.add({ ifindex, address: Cidr.parse("10.1.0.1/24") });
  const to = (text: string): { destination: Cidr } => ({
    destination: Cidr.parse(text),
  });
  const peer = { netns: fixture.hosts.sandbox, name: "sixteen-letters!" };
  const rows: [work: () => unknown, message: string][] = [
    [
      () =>
        rtnl.route.add({
          ...to("10.9.0.0/16"),
          gateway: Ip.parse("192.0.2.1"),
        }),
      "RTM_NEWROUTE 10.9.0.0/16 via 192.0.2.1: ENETUNREACH: Nexthop has invalid gateway",
    ],
    [
      () => rtnl.route.add({ ...to("10.9.0.1/16"), ifindex }),
      `RTM_NEWROUTE 10.9.0.1/16 dev ${ifindex}: EINVAL: Invalid prefix for given prefix length`,
    ],
    [
      () =>
        rtnl.route.add({
          ...to("10.9.0.0/16"),
          ifindex,
          preferredSource: Ip.parse("192.0.2.9"),
        }),
      `RTM_NEWROUTE 10.9.0.0/16 dev ${ifindex}: EINVAL: Invalid prefsrc address`,
    ],
    [
      () =>
        rtnl.route.add({
          ...to("2001:db8::/48"),
          gateway: Ip.parse("10.1.0.2"),
        }),
      "RTM_NEWROUTE 2001:db8::/48 via 10.1.0.2: ERANGE: Attribute failed policy validation (attribute gateway)",
    ],
    [
      () =>
        rtnl.route.add({
          ...to("10.9.0.0/16"),
          gateway: Ip.parse("10.1.0.2"),
          scope: 254,
        }),
      "RTM_NEWROUTE 10.9.0.0/16 via 10.1.0.2: EINVAL: Route with host scope can not have a gateway",
    ],
    [
      () =>
        socket.request(newLink, {
          flags: Flag.Create | Flag.Exclusive,
          header: {},
          attributes: { linkInfo: { kind: "nosuchkind" } },
        }),
      "RTM_NEWLINK: EOPNOTSUPP: Unknown device type",
    ],
    [
      () => rtnl.link.get("sixteen-letters!"),
      'RTM_GETLINK "sixteen-letters!": ENODEV',
    ],
    [
      () => rtnl.link.addBridge({ name: "sixteen-letters!" }),
      'RTM_NEWLINK "sixteen-letters!": ERANGE: Attribute failed policy validation (attribute name)',
    ],
    [
      () => rtnl.link.addVeth({ name: "veth1", peer }),
      'RTM_NEWLINK "veth1": ERANGE: Attribute failed policy validation (attribute linkInfo.data.peer.name)',
    ],
    [
      () =>
        new NeighborRequests(rtnl.socket).del(ifindex, Ip.parse("10.1.0.77")),
      `RTM_DELNEIGH 10.1.0.77 of link ${ifindex}: ENOENT`,
    ],
  ];
  await eachRow(t, rows, ([work, message]) => {
    assertEquals(assertThrows(work, NetlinkError).message, message);
  }, ([, message]) => message);
});

rootTest("NetlinkSocket.dump() throws the verdict that ends a dump", () => {
  using fixture = new Fixture();
  const error = assertThrows(
    () =>
      fixture.socket.dump(getRoute, {
        header: { family: AF_INET },
        attributes: { table: 7777 },
      }, newRoute),
    NetlinkError,
  );
  assertEquals(error.errno, "ENOENT");
  assertStringIncludes(error.extAck, "FIB table does not exist");
});

rootTest("NetlinkSocket.dump() lists more than one part", () => {
  using fixture = new Fixture();
  fixture.addAddresses(LONG_DUMP);
  const ips = fixture.dumpAddresses();
  const [{ addr_info: expected }] = ipJson(
    fixture.hosts.host,
    "-4",
    "address",
    "show",
    "dev",
    "veth0",
  );
  assertEquals(expected.length, LONG_DUMP);
  // Including the loopback address.
  assertEquals([ips.length, unique(ips)], [LONG_DUMP + 1, LONG_DUMP + 1]);
});

/**
 * Runs `work` between the parts of dumps, whenever a socket is about to receive
 * one.
 */
function beforeEachReceive(work: () => void): Disposable {
  const original = Object.getOwnPropertyDescriptor(Fd.prototype, "number");
  if (original?.get === undefined) throw new Error("Fd has no number");
  let isAtWork = false;
  Object.defineProperty(Fd.prototype, "number", {
    ...original,
    get(this: Fd): number {
      if (!isAtWork) {
        isAtWork = true;
        work();
        isAtWork = false;
      }
      return original.get?.call(this);
    },
  });
  return {
    [Symbol.dispose](): void {
      Object.defineProperty(Fd.prototype, "number", original);
    },
  };
}

rootTest("NetlinkSocket.dump() starts again if the list changes", () => {
  using fixture = new Fixture();
  fixture.addAddresses(LONG_DUMP);
  let uses = 0;
  using _changes = beforeEachReceive(() => {
    // Once, between the request and the first receive.
    if (uses++ !== 1) return;
    fixture.rtnl.address.add(fixture.addressAt(LONG_DUMP));
  });
  const ips = fixture.dumpAddresses();
  assertEquals([ips.length, unique(ips)], [LONG_DUMP + 2, LONG_DUMP + 2]);
  const usesOfTwo = uses;
  fixture.dumpAddresses();
  assert(usesOfTwo > uses - usesOfTwo, "it did not start again");
});

/** Changes the list of addresses and changes it back. */
function disturb({ rtnl, addressAt }: Fixture): void {
  const { ifindex, address } = addressAt(LONG_DUMP);
  rtnl.address.add({ ifindex, address });
  rtnl.address.del(ifindex, address);
}

rootTest("NetlinkSocket.dump() gives up if it always changes", async (t) => {
  using fixture = new Fixture();
  fixture.addAddresses(LONG_DUMP);
  using changes = beforeEachReceive(() => disturb(fixture));
  const error = assertThrows(() => fixture.dumpAddresses(), NetlinkError);
  assertEquals(
    error.message,
    "RTM_GETADDR list: EINTR: the list changed during each of 10 dumps",
  );
  await t.step("unless an incomplete list will do", () => {
    const [ips, isComplete] = fixture.dumpSomeAddresses();
    assert(unique(ips) >= LONG_DUMP, `it lists ${unique(ips)}`);
    assertEquals(isComplete, false);
  });
  changes[Symbol.dispose]();
  assertEquals(fixture.dumpAddresses().length, LONG_DUMP + 1);
  const [ips, isComplete] = fixture.dumpSomeAddresses();
  assertEquals([ips.length, isComplete], [LONG_DUMP + 1, true]);
});

rootTest("NetlinkSocket.dump() decodes when everything is received", () => {
  using fixture = new Fixture();
  fixture.addAddresses(LONG_DUMP);
  let decoded = 0;
  const ips = fixture.dumpAddresses(() => {
    if (decoded++ % 100 === 0) disturb(fixture);
  });
  const all = LONG_DUMP + 1;
  assertEquals([decoded, ips.length, unique(ips)], [all, all, all]);
});

rootTest("NetlinkSocket.requestAll() throws the first of many refusals", () => {
  using fixture = new Fixture();
  for (const count of [10, 1000, 20_000]) {
    const requests = Array.from(
      { length: count },
      (_, i) =>
        encodeRequest(delLink, {
          header: {},
          attributes: { name: `gone${i}` },
        }),
    );
    const error = assertThrows(
      () => fixture.socket.requestAll(requests),
      NetlinkError,
    );
    assertEquals(error.message, 'RTM_DELLINK "gone0": ENODEV');
  }
});

rootTest(
  "NetlinkSocket.requestAll() needs no root to send much",
  userns,
  () => {
    using hosts = TestHosts.create();
    const script = `
      import { NetNs } from "${new URL("../netns.ts", import.meta.url)}";
      import { encodeRequest } from "${import.meta.resolve("./request.ts")}";
      import { NetlinkSocket } from "${import.meta.resolve("./socket.ts")}";
      import { newLink } from "${new URL(
      "../rtnl/link_message.ts",
      import.meta.url,
    )}";
      using netns = NetNs.current();
      using socket = NetlinkSocket.open(netns, 0);
      const up = { header: { index: 1, flags: 1, change: 1 } };
      const requests = Array.from({ length: 5000 }, () => encodeRequest(newLink, up));
      const [last] = requests.splice(-1);
      socket.requestAll([...requests, { ...last, flags: last.flags | 4 }]);
      console.log("sent");
    `;
    const args = ["--user", "--map-root-user", "--net"];
    const output = runIn(
      hosts.host,
      "unshare",
      ...[...args, Deno.execPath(), "run", "-A", asModule(script)],
    );
    assertEquals(output, "sent\n");
  },
);

rootTest("NetlinkSocket drops late replies to abandoned requests", () => {
  using fixture = new Fixture();
  fixture.addAddresses(LONG_DUMP);
  const giveUp = (): void => {
    throw new RangeError("given up");
  };
  for (let round = 0; round < 3; round++) {
    assertThrows(() => fixture.dumpAddresses(giveUp), RangeError, "given up");
    const [link] = fixture.socket.request(
      getLink,
      { header: { index: fixture.link.index } },
      newLink,
    );
    assertEquals(link?.attributes.name, "veth0");
    assertThrows(() => fixture.dumpAddresses(giveUp), RangeError, "given up");
    assertEquals(unique(fixture.dumpAddresses()), LONG_DUMP + 1);
  }
});

rootTest("NetlinkSocket receives a reply larger than its buffer", () => {
  using fixture = new Fixture();
  const { rtnl, link, socket } = fixture;
  rtnl.address.add({
    ifindex: link.index,
    address: Cidr.parse("10.20.0.1/16"),
  });
  // A message cannot be split. These next hops take 64 000 bytes.
  const multipath = Array.from({ length: 4000 }, (_, i) => ({
    header: { length: 0, flags: 0, hops: 0, ifindex: link.index },
    attributes: { gateway: Ip.parse("10.20.0.2").add(BigInt(i)) },
  }));
  const answers = socket.request(newRoute, {
    flags: Flag.Create | Flag.Exclusive | Flag.Echo,
    header: { family: AF_INET, destinationLength: 16, table: 254, type: 1 },
    attributes: { destination: Ip.parse("10.90.0.0"), multipath },
  }, newRoute);
  const gateways = answers[0]?.attributes.multipath?.map((
    { attributes: { gateway } },
  ) => String(gateway));
  assertEquals(
    gateways,
    multipath.map(({ attributes: { gateway } }) => String(gateway)),
  );
});

rootTest("NetlinkSocket.requestEach() does what the kernel accepts", () => {
  using fixture = new Fixture();
  const { rtnl, link, socket } = fixture;
  const names = Array.from({ length: 250 }, (_, i) => `gone${i}`);
  const requests = [...names, link.name, "last"].map((name) =>
    encodeRequest(delLink, { header: {}, attributes: { name } })
  );
  const refusals = socket.requestEach(requests);
  assertEquals(refusals.map((refusal) => refusal?.message), [
    ...names.map((name) => `RTM_DELLINK "${name}": ENODEV`),
    undefined,
    'RTM_DELLINK "last": ENODEV',
  ]);
  assertEquals(rtnl.link.find(link.index), undefined);
  assertEquals(socket.requestEach([]), []);
});

rootTest("NetlinkSocket.get() returns the object, or throws", () => {
  using fixture = new Fixture();
  const { link, socket } = fixture;
  const find = (index: number): number =>
    socket.get(getLink, { header: { index } }, newLink).header.index;
  assertEquals(find(link.index), link.index);
  const error = assertThrows(() => find(4711), NetlinkError);
  assertEquals(error.message, "RTM_GETLINK link 4711: ENODEV");
  assertEquals(find(1), 1);
});

rootTest("NetlinkSocket.netnsCookie tells namespaces apart", () => {
  using hosts = TestHosts.create();
  const cookieOf = (netns: NetNs): bigint | undefined => {
    using socket = NetlinkSocket.open(netns, Protocol.Route);
    return socket.netnsCookie;
  };
  const { host, sandbox } = hosts;
  const cookie = cookieOf(host);
  assertEquals([typeof cookie, cookieOf(host)], ["bigint", cookie]);
  assert(cookie !== cookieOf(sandbox));
});
