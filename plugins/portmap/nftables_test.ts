import { assert, assertEquals, assertMatch } from "@std/assert";
import { type FoundElements, Nftables } from "../../ffi/nftables/mod.ts";
import { NetlinkSocket } from "../../ffi/netlink/socket.ts";
import { allOf, type Needs, rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import {
  assertFailure,
  assertSuccess,
} from "../../tests/_harness/call_outcome.ts";
import {
  Crash,
  eachStep,
  type FaultScene,
  testFaultsOfAdd,
} from "../../tests/_harness/fault_steps.ts";
import { intercept } from "../../testing/fault_injector.ts";
import {
  type MappedCall,
  MappedPorts,
  onePort,
  portElementsOf,
  SAMPLE,
  withPorts,
} from "./testing/mapped_ports.ts";
import { listPeers } from "../../tests/_harness/parity.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { isClosed, PortScene, TcpServer } from "./testing/port_scene.ts";
import { needsInetRules, needsRuleTools } from "../../tests/_harness/rules.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import type { CallOutput } from "../../testing/test_hosts.ts";

const NFTABLES = { backend: "nftables" };
const CONDITIONS = {
  conditionsV4: ["ip", "saddr", "192.0.2.0/24"],
  conditionsV6: ["ip6", "saddr", "2001:db8:ff::/64"],
};

function test(
  name: string,
  fn: (t: Deno.TestContext) => Promise<void>,
  ...needs: readonly Needs[]
): void {
  const all = allOf(needsRuleTools, needsInetRules, ...needs);
  rootTest(`portmap by nftables ${name}`, all, fn);
}

/** Runs `nft` with one command. */
function nft(ports: MappedPorts, command: string): void {
  runIn(ports.hosts.host, "nft", command);
}

test("ADD replaces the elements of an earlier ADD", async () => {
  using ports = new MappedPorts(NFTABLES);
  await ports.succeed("ADD", withPorts(SAMPLE));
  await ports.succeed("ADD", onePort(9000));
  const before = ports.table;
  await ports.succeed("ADD", onePort(9000));
  assertEquals(ports.table, before);
  assertEquals(
    portElementsOf(ports.hosts.host).filter((one) => /ports/.test(one)),
    [
      "ports4: tcp . 9000 : 10.1.2.5 . 80",
      "ports6: tcp . 9000 : 2001:db8:1::5 . 80",
    ],
  );
  await ports.succeed("DEL");
  await ports.succeed("DEL");
  assertEquals(ports.table, "");
});

test("ADD uses the first of two mappings of a port", async () => {
  using ports = new MappedPorts(NFTABLES);
  const mappings = [80, 81].map((containerPort) => ({
    hostPort: 8080,
    containerPort,
    protocol: "tcp",
  }));
  await ports.succeed("ADD", withPorts(mappings));
  assertMatch(ports.table, /: 10\.1\.2\.5 \. 80/);
  assert(!ports.table.includes(". 81"), ports.table);
  await ports.succeed("CHECK", withPorts(mappings));
});

test("ADD accepts the protocol in any case", async (t) => {
  const rows = ["TCP", "tcp", "", "Udp", "SCTP"];
  await eachRow(t, rows, async (protocol) => {
    using ports = new MappedPorts(NFTABLES);
    const keys = withPorts([{ hostPort: 1, containerPort: 2, protocol }]);
    await ports.succeed("ADD", keys);
    const wanted = protocol.toLowerCase() || "tcp";
    assertMatch(ports.table, new RegExp(`${wanted} \\. 1 `));
  }, (protocol) => `"${protocol}"`);
});

test("ADD refuses unusable values", async (t) => {
  const mapping = { hostPort: 8080, containerPort: 80 };
  const rows: [Keys, string][] = [
    [withPorts([{ ...mapping, protocol: "icmp" }]), 'got "icmp"'],
    [withPorts([{ ...mapping, hostIP: "nowhere" }]), "hostIP"],
    [withPorts([{ ...mapping, hostPort: "8080" }]), "hostPort"],
    [{ backend: "ipfw" }, 'unrecognized backend "ipfw"'],
    [{ markMasqBit: 32 }, "MasqMarkBit must be between 0 and 31"],
    [{ markMasqBit: -1 }, "MasqMarkBit must be between 0 and 31"],
    [
      { markMasqBit: 5, externalSetMarkChain: "X" },
      "Cannot specify externalSetMarkChain and markMasqBit",
    ],
    [{ prevResult: undefined }, "must be called as chained plugin"],
  ];
  await eachRow(t, rows, async ([keys, text]) => {
    using ports = new MappedPorts();
    assertFailure(await ports.run("ADD", keys), 7, text);
    const { exitCode } = await ports.run("DEL", keys);
    assertEquals(exitCode, 0);
  }, ([, text]) => text);
});

test("ADD returns prevResult without ports, or with ports of another family", async (t) => {
  const rows = [
    withPorts([]),
    { runtimeConfig: undefined },
    withPorts([{ hostPort: 1, containerPort: 1, hostIP: "::" }]),
  ];
  await eachRow(t, rows, async (keys) => {
    using ports = new MappedPorts({ ...NFTABLES, ...keys });
    const addresses = { addresses: ["10.1.2.5/24"] };
    const { json } = await ports.succeed("ADD", {}, addresses);
    assertEquals(json.ips[0].address, "10.1.2.5/24");
    assertEquals(ports.table, "");
    await ports.succeed("CHECK", {}, addresses);
    await ports.succeed("DEL", {}, addresses);
  }, (keys) => JSON.stringify(keys));
});

test("ADD refuses a port of a running container, and names the container", async () => {
  using ports = new MappedPorts(NFTABLES);
  await ports.succeed("ADD");
  const before = ports.table;
  const sandbox = ports.hosts.addNetns();
  const other = { containerId: "other", sandbox };
  const refused = await ports.run("ADD", onePort(8080, 81), {
    ...other,
    addresses: ["10.1.2.6/24"],
  });
  assertFailure(refused, 11, "Host port 8080/tcp is taken");
  assertMatch(
    refused.json.details,
    /net: net1, if: eth0, id: test-container, address: 10\.1\.2\.5/,
  );
  assertEquals(ports.table, before);
  await ports.succeed("ADD", onePort(8081), {
    ...other,
    addresses: ["10.1.2.6/24"],
  });
  assertMatch(ports.table, /tcp \. 8081 .*: 10\.1\.2\.6 \. 80/);
});

test("ADD takes over a port of a container whose sandbox was deleted", async (t) => {
  const rows: Readonly<Record<string, (path: string) => void>> = {
    "the path is gone": (path) => Deno.removeSync(path),
    "the path is another file": (path) => {
      Deno.removeSync(path);
      Deno.writeTextFileSync(path, "");
    },
  };
  await eachRow(t, Object.entries(rows), async ([, end]) => {
    using ports = new MappedPorts(NFTABLES);
    const path = `${ports.hosts.directory}/netns`;
    await Deno.symlink(ports.hosts.sandbox.path, path);
    const dead = { containerId: "dead", env: { CNI_NETNS: path } };
    await ports.succeed("ADD", { prevResult: resultIn(path) }, dead);
    end(path);
    const sandbox = ports.hosts.addNetns();
    const addresses = ["10.1.2.6/24"];
    await ports.succeed("ADD", {}, { sandbox, addresses });
    assertMatch(ports.table, /tcp \. 8080 .*id: test-container" : 10\.1\.2\.6/);
    // DEL of the dead one leaves what is not its own any more.
    await ports.succeed("DEL", {}, dead);
    await ports.succeed("CHECK", {}, { sandbox, addresses });
    assert(!ports.table.includes("dead"), ports.table);
  }, ([name]) => name);
});

test("ADD uses the MAC to find a running container whose label is lost", async (t) => {
  const rows: [mac: string, isAlive: boolean][] = [
    ["lladdr 02:00:00:00:00:05", true],
    ["nud failed", false],
    ["", false],
  ];
  await eachRow(t, rows, async ([mac, isAlive]) => {
    using ports = new MappedPorts(NFTABLES);
    const { host, directory } = ports.hosts;
    await ports.succeed("ADD");
    const file = `${directory}/rules`;
    await Deno.writeTextFile(file, runIn(host, "nft", "list ruleset"));
    nft(ports, "flush ruleset");
    runIn(host, "nft", "-f", file);
    await ports.succeed("CHECK");
    if (mac !== "") {
      const ip = (text: string): string =>
        runIn(host, "ip", ...text.split(" "));
      ip("link add br9 up type bridge");
      ip(`neigh add 10.1.2.5 dev br9 ${mac}`);
    }
    const sandbox = ports.hosts.addNetns();
    const addresses = ["10.1.2.6/24"];
    const other = { containerId: "other", sandbox, addresses };
    const { exitCode } = await ports.run("ADD", {}, other);
    assertEquals(exitCode, isAlive ? 1 : 0);
    const target = isAlive ? "10.1.2.5" : "10.1.2.6";
    assert(ports.table.includes(`: ${target} . 80`), ports.table);
  }, ([mac]) => mac || "none");
});

function resultIn(sandbox: string): Keys {
  return {
    cniVersion: "1.0.0",
    interfaces: [{ name: "eth0", sandbox }],
    ips: [{ address: "10.1.2.5/24", interface: 0 }],
  };
}

test("ADD keeps the port with the first network of a container", async () => {
  using ports = new MappedPorts(NFTABLES);
  await ports.succeed("ADD");
  const second = { ifName: "eth1", addresses: ["10.9.9.9/24"] };
  const keys = { name: "net2" };
  await ports.succeed("ADD", keys, second);
  await ports.succeed("CHECK", keys, second);
  assertMatch(ports.table, /tcp \. 8080 .*: 10\.1\.2\.5/);
  await ports.succeed("DEL", keys, second);
  await ports.succeed("CHECK");
  await ports.succeed("DEL");
  assertEquals(ports.table, "");
});

test("conditions apply to their own network only", async () => {
  using scene = new PortScene();
  const { outside, host } = scene;
  const mapping = { containerPort: 80, protocol: "tcp" };
  const first = await scene.attach([{ ...mapping, hostPort: 8080 }], {
    keys: CONDITIONS,
  });
  const network = {
    name: "net2",
    ipam: scene.hosts.hostLocal("10.1.3.0/24"),
  };
  const second = await scene.attach([{ ...mapping, hostPort: 8081 }], {
    network,
    containerId: "second",
    sandbox: scene.hosts.addNetns(),
  });
  using one = new TcpServer(first.sandbox, 80);
  using two = new TcpServer(second.sandbox, 80);
  assertEquals(await one.clientOf(outside, "192.0.2.1", 8080), "192.0.2.2");
  assert(isClosed(host, "127.0.0.1", 8080));
  assertEquals(await two.clientOf(host, "127.0.0.1", 8081), "10.1.3.1");
  assertSuccess(await first.run("CHECK"));
  assertSuccess(await first.run("DEL"));
  assert(!/when_|192\.0\.2\.0/.test(scene.table), scene.table);
  assertSuccess(await second.run("CHECK"));
  assertSuccess(await second.run("DEL"));
  assertEquals(scene.table, "");
});

for (
  const conditions of [
    "no such words",
    "ip6 saddr fd00::/8",
    "ip saddr fd00::1",
  ]
) {
  test(`ADD is undone if nft refuses the conditions "${conditions}"`, async () => {
    using ports = new MappedPorts(NFTABLES);
    const conditionsV4 = conditions.split(" ");
    assertFailure(
      await ports.run("ADD", { conditionsV4 }),
      999,
      `Cannot add the conditions "${conditions}"`,
    );
    assertEquals(ports.table, "");
  });
}

for (const separator of [";", "\n", "\r"]) {
  test(`conditions cannot contain a second nft command after ${JSON.stringify(separator)}`, async () => {
    using ports = new MappedPorts(NFTABLES);
    const words = ["ip", "saddr", `10.0.0.1${separator}add table inet other`];
    assertFailure(
      await ports.run("ADD", { conditionsV4: words }),
      7,
      'conditionsV4: a condition may not contain ";" or a line break',
    );
    assertEquals(ports.table, "");
    const { exitCode } = await ports.run("DEL", { conditionsV4: words });
    assertEquals(exitCode, 0);
  });
}

test("ADD of 500 ports adds as many rules and sends as many requests as ADD of one", async () => {
  const count = async (length: number): Promise<unknown> => {
    using ports = new MappedPorts(NFTABLES);
    const mappings = Array.from({ length }, (_, at) => ({
      hostPort: 10_000 + at,
      containerPort: 20_000 + at,
      protocol: "tcp",
    }));
    const requests: string[] = [];
    using stack = new DisposableStack();
    for (const method of ["request", "get", "dump", "requestAll"] as const) {
      stack.defer(intercept(NetlinkSocket.prototype, method, (_, work) => {
        requests.push(method);
        return work();
      }));
    }
    await ports.succeed("ADD", withPorts(mappings));
    stack.dispose();
    const elements = portElementsOf(ports.hosts.host)
      .filter((one) => one.startsWith("ports")).length;
    assertEquals(elements, 2 * length);
    await ports.succeed("CHECK", withPorts(mappings));
    const rules = runIn(ports.hosts.host, "nft", "-a", "list", "ruleset")
      .match(/^\t\t.*# handle/gm)?.length;
    await ports.succeed("DEL");
    assertEquals(ports.table, "");
    return { requests, rules };
  };
  assertEquals(await count(500), await count(1));
});

test("no command decodes the mappings of other containers", async () => {
  using ports = new MappedPorts(NFTABLES);
  const mappings = Array.from(
    { length: 300 },
    (_, at) => ({ hostPort: 10_000 + at, containerPort: 80 }),
  );
  await ports.succeed("ADD", withPorts(mappings), {
    env: { CNI_CONTAINERID: "other" },
  });
  const decoded: number[] = [];
  using stack = new DisposableStack();
  stack.defer(intercept(Nftables.prototype, "listElements", () => {
    throw new Error("decodes all elements");
  }));
  stack.defer(intercept(Nftables.prototype, "findElements", (_, work) => {
    const found = work() as FoundElements;
    decoded.push(found.elements.length);
    return found;
  }));
  // Its port and its two masqueraded networks.
  const expected = [["ADD", 0], ["CHECK", 3], ["ADD", 3], ["DEL", 3]] as const;
  for (const [command, count] of expected) {
    decoded.length = 0;
    const addresses = ["10.1.2.6/24"];
    await ports.succeed(command, onePort(8080), { addresses });
    const sum = decoded.reduce((all, one) => all + one, 0);
    assertEquals(sum, count, command);
  }
});

/** Changes of other programs, and what CHECK then says. */
const TAMPERING: readonly (readonly [
  command: string,
  ...texts: readonly string[],
])[] = [
  ["flush chain inet cni_portmap prerouting", '"prerouting" chain'],
  ["flush chain inet cni_portmap output", '"output" chain'],
  ["flush chain inet cni_portmap hostports", '"hostports" chain'],
  ["flush chain inet cni_portmap postrouting", '"postrouting" chain'],
  ["flush chain inet cni_portmap conditional", '"conditional" chain'],
  ["flush chain inet cni_portmap loopback", '"loopback" chain'],
  ["flush set inet cni_portmap masqueraded4", '"masqueraded4" set'],
  ["flush set inet cni_portmap masqueraded6", '"masqueraded6" set'],
  ["flush map inet cni_portmap ports6", "is not forwarded to 2001:db8:1::5"],
  [
    "delete table inet cni_portmap",
    '"hostports" chain',
    '"loopback" chain',
    '"masqueraded4" set',
    "is not forwarded to 10.1.2.5",
    "is not forwarded to 2001:db8:1::5",
  ],
];

test("CHECK reports each missing part, and ADD restores it", async (t) => {
  await eachRow(t, TAMPERING, async ([command, ...texts]) => {
    using ports = new MappedPorts({
      ...NFTABLES,
      conditionsV4: CONDITIONS.conditionsV4,
    });
    await ports.succeed("ADD");
    const before = ports.table;
    nft(ports, command);
    const checked = await ports.run("CHECK");
    for (const text of texts) assertFailure(checked, 999, text);
    await ports.succeed("ADD");
    await ports.succeed("CHECK");
    assertEquals(ports.table.split("\n").sort(), before.split("\n").sort());
  }, ([command]) => command);
});

test("CHECK reports a port that is forwarded to a different address", async () => {
  using ports = new MappedPorts(NFTABLES);
  await ports.succeed("ADD");
  const addresses = ["10.1.2.9/24"];
  const { json } = await ports.run("CHECK", {}, { addresses });
  assertMatch(json.msg, /8080\/tcp is not forwarded to 10\.1\.2\.9/);
});

test("DEL works without ports and prevResult, and with invalid keys", async (t) => {
  const rows: Readonly<Record<string, Keys>> = {
    "no prevResult": { prevResult: undefined },
    "no ports": { runtimeConfig: undefined },
    "wrong keys": { backend: 5, runtimeConfig: { portMappings: "x" } },
    "another backend": { backend: "iptables" },
  };
  await eachRow(t, Object.entries(rows), async ([, keys]) => {
    using ports = new MappedPorts(NFTABLES);
    const empty = { env: { CNI_NETNS: "" } };
    await ports.succeed("DEL", keys, empty);
    await ports.succeed("ADD", withPorts(SAMPLE));
    await ports.succeed("DEL", keys, empty);
    assertEquals(ports.table, "");
    await ports.succeed("DEL", keys, empty);
  }, ([name]) => name);
});

test("GC removes the mappings of stale attachments of the network", async () => {
  using ports = new MappedPorts({ ...NFTABLES, cniVersion: "1.1.0" });
  const add = async (
    containerId: string,
    hostPort: number,
    name: string,
  ): Promise<void> => {
    const sandbox = ports.hosts.addNetns();
    await ports.succeed("ADD", {
      ...onePort(hostPort),
      name,
      conditionsV4: CONDITIONS.conditionsV4,
    }, { containerId, sandbox, addresses: [`10.1.2.${hostPort}/24`] });
  };
  await add("stays", 1, "net1");
  await add("goes", 2, "net1");
  await add("elsewhere", 3, "net2");
  await ports.succeed("GC");
  const left = (): string[] =>
    [...ports.table.matchAll(/tcp \. (\d)/g)].map(([, port = ""]) => port)
      .sort();
  assertEquals(left(), ["1", "2", "3"]);
  const valid = [{ containerID: "stays", ifname: "eth0" }];
  await ports.succeed("GC", { "cni.dev/valid-attachments": valid });
  assertEquals(left(), ["1", "3"]);
  for (const name of ["net1", "net2"]) {
    await ports.succeed("GC", { name, "cni.dev/valid-attachments": [] });
  }
  assertEquals(ports.table, "");
});

test("STATUS fails if nftables does not work", async () => {
  using ports = new MappedPorts({ ...NFTABLES, cniVersion: "1.1.0" });
  await ports.succeed("STATUS");
  assertEquals(ports.table, "");
  const refusals = ["commit", "generation"] as const;
  using stack = new DisposableStack();
  const { Nftables } = await import("../../ffi/nftables/mod.ts");
  const { NetlinkError } = await import("../../ffi/netlink/error.ts");
  for (const method of refusals) {
    stack.defer(intercept(Nftables.prototype, method, () => {
      throw new NetlinkError("NFT_MSG_GETGEN", 95);
    }));
  }
  assertFailure(await ports.run("STATUS"), 50, "Cannot forward ports with");
});

test("neighbours on a bridge can use the host port", async () => {
  using scene = new PortScene();
  const network = { type: "bridge", bridge: "br0", isGateway: true };
  const mappings = [{ hostPort: 8080, containerPort: 80 }];
  const attached = await scene.attach(mappings, { network });
  const sandbox = scene.hosts.addNetns();
  await scene.connect({ network, containerId: "neighbour", sandbox });
  using server = new TcpServer(attached.sandbox, 80);
  assertEquals(await server.clientOf(sandbox, "192.0.2.1", 8080), "10.1.2.1");
});

test("ADD and DEL keep connections to other ports", async () => {
  using scene = new PortScene();
  const { host, outside } = scene;
  const attached = await scene.attach([
    { hostPort: 8080, containerPort: 80, protocol: "tcp" },
  ]);
  using server = new TcpServer(attached.sandbox, 80);
  await server.clientOf(outside, "192.0.2.1", 8080);
  await server.clientOf(host, "10.1.2.2", 80);
  const tracked = (): string[] =>
    runIn(host, "conntrack", "-L", "-p", "tcp").split("\n")
      .flatMap((line) => / dst=(\S+) .*? dport=(\d+)/.exec(line) ?? [])
      .filter((_, at) => at % 3 > 0);
  assertEquals(tracked().includes("192.0.2.1"), true);
  // Keeps connections tracked without portmap.
  runIn(host, "nft", "add table inet tracking");
  runIn(
    host,
    "nft",
    "add chain inet tracking in { type nat hook input priority 100; }",
  );
  assertSuccess(await attached.run("DEL"));
  assertEquals(tracked(), ["10.1.2.2", "80"]);
});

test("ADD deletes the conntrack entries of its port, and no others", async (t) => {
  const other = { containerId: "other", addresses: ["10.1.2.6/24"] };
  const second = { ifName: "eth1", addresses: ["10.1.2.6/24"] };
  const one = "192.0.2.1";
  const rows: [
    name: string,
    backend: string,
    hostIps: [there: string, added: string],
    call: MappedCall,
    stays: boolean,
  ][] = [
    ["one with hostIP, by nftables", "nftables", [one, ""], other, true],
    ["the first network's, by nftables", "nftables", ["", ""], second, true],
    ["the first network's, by iptables", "iptables", ["", ""], second, true],
    ["one without hostIP, by nftables", "nftables", ["", one], other, false],
    ["one with hostIP, by iptables", "iptables", [one, ""], other, true],
    ["one without hostIP, by iptables", "iptables", ["", one], other, false],
  ];
  await eachRow(t, rows, async ([, backend, hostIps, call, stays]) => {
    using ports = new MappedPorts({ backend });
    const { host } = ports.hosts;
    runIn(host, "ip", "addr", "add", "192.0.2.1/24", "dev", "lo");
    const [there, added] = hostIps.map((hostIP) =>
      withPorts([
        { hostPort: 5353, containerPort: 53, protocol: "udp", hostIP },
      ])
    );
    await ports.succeed("ADD", there);
    const track = (target: string, port: number): void => {
      const connection = "-I -p udp -t 100 -s 192.0.2.2 -d 192.0.2.1 " +
        `--sport ${port} --dport 5353 -g ${target}:53`;
      runIn(host, "conntrack", ...connection.split(" "));
    };
    track("10.1.2.5", 4000);
    track("10.1.2.9", 4001);
    const sandbox = ports.hosts.addNetns();
    await ports.succeed("ADD", { ...added, name: "net2" }, {
      sandbox,
      ...call,
    });
    const tracked = runIn(host, "conntrack", "-L");
    assertEquals(tracked.includes("sport=4000"), stays, tracked);
    assert(!tracked.includes("sport=4001"), tracked);
  });
});

test("a late DEL keeps the connections of the next owner of address and port", async (t) => {
  await eachRow(t, ["nftables", "iptables"], async (backend) => {
    using ports = new MappedPorts({ backend });
    const { host } = ports.hosts;
    await ports.succeed("ADD");
    await ports.succeed("DEL");
    const next = { containerId: "next", sandbox: ports.hosts.addNetns() };
    await ports.succeed("ADD", {}, next);
    const connection = "-p tcp -t 100 --state ESTABLISHED -s 192.0.2.2 " +
      "-d 192.0.2.1 --sport 4000 --dport 8080 -g 10.1.2.5:80";
    runIn(host, "conntrack", "-I", ...connection.split(" "));
    const tracked = (): string => runIn(host, "conntrack", "-L");
    // The runtime repeats DEL until it succeeds, and sometimes after that.
    await ports.succeed("DEL");
    assertMatch(tracked(), /dport=8080/);
    await ports.succeed("DEL", {}, next);
    assertEquals(tracked().trim(), "");
  });
});

for (const peer of listPeers("portmap by nftables")) {
  if (peer.cniVersion !== "1.1.0") continue;
  test(`ADD takes over the rules of ${peer.name}, and keeps third-party rules`, async () => {
    using ports = new MappedPorts(NFTABLES);
    const go = { who: peer };
    const others = {
      ...go,
      containerId: "another",
      addresses: ["10.1.2.6/24"],
    };
    await ports.succeed("ADD", onePort(9000), others);
    const goRules = (): number =>
      runIn(ports.hosts.host, "nft", "list", "ruleset")
        .match(/comment "test-container"/g)?.length ?? 0;
    await ports.succeed("ADD", {}, go);
    assertEquals(goRules(), 5);
    await ports.succeed("CHECK");
    await ports.succeed("ADD");
    assertEquals(goRules(), 0);
    await ports.succeed("CHECK");
    await ports.succeed("DEL");
    assertEquals(ports.table, "");
    await ports.succeed("ADD", {}, go);
    await ports.succeed("DEL");
    assertEquals(goRules(), 0);
    assertEquals((await ports.run("CHECK")).exitCode, 1);
    const all = { masqAll: true };
    await ports.succeed("ADD", all, go);
    await ports.succeed("CHECK", all);
    await ports.succeed("CHECK", all, go);
    await ports.succeed("DEL", all);
    assertEquals(goRules(), 0);
    await ports.succeed("CHECK", onePort(9000), others);
  });
}

/** A host without ports. */
class NftablesScene implements FaultScene {
  readonly ports = new MappedPorts({
    ...NFTABLES,
    ...CONDITIONS,
    ...withPorts(SAMPLE),
  });

  get state(): string {
    return this.ports.table;
  }

  run(command: string, extras: Keys = {}): Promise<CallOutput> {
    return this.ports.run(command, extras);
  }

  [Symbol.dispose](): void {
    this.ports[Symbol.dispose]();
  }
}

testFaultsOfAdd("portmap", " (nftables)", {
  make: () => new NftablesScene(),
  atLeast: 15,
  // Stale connections, if any, stay.
  optional: /IPCTNL|RTM_GETADDR/,
});

test("DEL leaves nothing after a crash at any step", async (t) => {
  for (const command of ["ADD", "DEL"]) {
    await eachStep(t, async (step) => {
      using scene = new NftablesScene();
      if (command === "DEL") assertSuccess(await scene.run("ADD"));
      const crash = new Crash(2 * step - 2);
      try {
        await scene.run(command);
      } finally {
        crash[Symbol.dispose]();
      }
      if (!crash.hasHappened) return undefined;
      assertSuccess(await scene.run("DEL", { prevResult: undefined }));
      assertEquals(scene.state, "");
      return step;
    });
  }
});
