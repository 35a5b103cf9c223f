import { assertEquals, assertStringIncludes } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import {
  assertFailure,
  assertSuccess,
  HOST_END,
  IFB,
  LimitedPair,
  LIMITS,
  tcJson,
  WIDE,
} from "./testing/limited_pair.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";

rootTest("bandwidth limits both directions until DEL", async () => {
  using hosts = TestHosts.create();
  const pair = new LimitedPair(hosts, { mtu: 1400 });
  const before = pair.limits();
  const result = await pair.add(WIDE);
  const [link] = ipJson(hosts.host, "link", "show", IFB);
  assertEquals(result.interfaces, [
    ...pair.prevResult.interfaces,
    { name: IFB, mac: link.address },
  ]);
  assertEquals([link.mtu, link.txqlen, link.flags.includes("UP")], [
    1400,
    undefined,
    true,
  ]);
  assertEquals(
    link.ifalias,
    "cni/cni-plugin-bandwidth-test/dummy/container-veth",
  );
  const bucketOf = (dev: string): unknown =>
    tcJson(hosts.host, "qdisc", "show", "dev", dev)[0].options;
  assertEquals(bucketOf(HOST_END), {
    rate: 12_500_000,
    burst: 1_250_000,
    lat: 25_000,
  });
  assertEquals(bucketOf(IFB), { rate: 6_250_000, burst: 625_000, lat: 25_000 });
  const checked = await pair.run("CHECK", { ...WIDE, prevResult: result });
  assertSuccess(checked);
  assertSuccess(await pair.run("DEL", { ...WIDE, prevResult: result }));
  assertEquals(pair.limits(), before);
  assertSuccess(await pair.run("DEL", WIDE));
});

rootTest("bandwidth.add() passes prevResult on without limits", async (t) => {
  using hosts = TestHosts.create();
  const pair = new LimitedPair(hosts);
  const before = pair.limits();
  const prevResult = {
    cniVersion: "1.1.0",
    interfaces: [{ name: "eth0", sandbox: "/x", "example.com/i": [1] }],
    ips: [{ address: "10.1.2.3/24", interface: 0, "example.com/a": {} }],
    routes: [{ dst: "0.0.0.0/0", priority: 7 }],
    dns: { nameservers: ["10.1.2.1"] },
    "example.com/key": { nested: [null] },
  };
  const rows: [name: string, keys: object][] = [
    ["no keys", {}],
    ["zeros", { ingressRate: 0, ingressBurst: 0 }],
    ["the runtime's zeros", { runtimeConfig: { bandwidth: {} } }],
    ["subnets alone", { shapedSubnets: ["10.0.0.0/8"] }],
  ];
  await eachRow(t, rows, async ([, keys]) => {
    assertEquals(await pair.add({ ...keys, prevResult }), prevResult);
    assertEquals(pair.limits(), before);
    assertSuccess(await pair.run("CHECK", { ...keys, prevResult }));
    assertSuccess(await pair.run("DEL", { ...keys, prevResult }));
  });
});

rootTest("bandwidth.add() keeps unknown keys of prevResult", async () => {
  using hosts = TestHosts.create();
  const pair = new LimitedPair(hosts);
  const prevResult = {
    ...pair.prevResult,
    interfaces: [
      { name: HOST_END, mtu: 1024, "example.com/i": 1 },
      ...pair.prevResult.interfaces.slice(1),
    ],
    "example.com/key": { nested: [null] },
  };
  const { interfaces, ...others } = await pair.add({ ...WIDE, prevResult });
  assertEquals(
    { ...others, interfaces: interfaces.slice(0, 2) },
    prevResult,
  );
});

rootTest("bandwidth warns of a burst smaller than a packet", async (t) => {
  const rows: [burst: number, warnings: number][] = [
    [(1024 + 14) * 8, 0],
    [(1024 + 13) * 8, 1],
  ];
  await eachRow(t, rows, async ([ingressBurst, warnings]) => {
    using hosts = TestHosts.create();
    const pair = new LimitedPair(hosts);
    const keys = { ingressRate: 1e6, ingressBurst };
    const { exitCode, stderr } = await pair.run("ADD", keys);
    assertEquals(exitCode, 0);
    const found = stderr.match(/level=warn .*The ingress burst .*mtu=1024/g);
    assertEquals(found?.length ?? 0, warnings);
  }, ([ingressBurst]) => `${ingressBurst} bits`);
});

rootTest("bandwidth.add() replaces existing limits", async (t) => {
  const subnets = { shapedSubnets: ["10.0.0.0/8"] };
  const rows: [name: string, first: object, second: object][] = [
    ["the same again", WIDE, WIDE],
    ["others", LIMITS, WIDE],
    ["from all traffic to some", WIDE, { ...WIDE, ...subnets }],
    ["from some traffic to all", { ...WIDE, ...subnets }, WIDE],
  ];
  await eachRow(t, rows, async ([, first, second]) => {
    using hosts = TestHosts.create();
    const pair = new LimitedPair(hosts);
    const before = pair.limits();
    await pair.add(first);
    const prevResult = await pair.add(second);
    assertEquals(prevResult.interfaces.length, 3);
    assertEquals(ipJson(hosts.host, "link").length, 3);
    const keys = { ...second, prevResult };
    assertSuccess(await pair.run("CHECK", keys));
    assertSuccess(await pair.run("DEL", keys));
    assertEquals(pair.limits(), before);
  });
  await t.step("although another attachment's IFB has the name", async () => {
    using hosts = TestHosts.create();
    const other = new LimitedPair(hosts, { hostEnd: "v1", ifName: "eth1" });
    const pair = new LimitedPair(hosts);
    await other.add(WIDE);
    await pair.add(LIMITS);
    assertSuccess(await other.run("DEL", WIDE));
    const prevResult = await pair.add(WIDE);
    assertEquals(prevResult.interfaces[2].name, IFB);
    assertSuccess(await pair.run("CHECK", { ...WIDE, prevResult }));
    assertSuccess(await pair.run("DEL", { ...WIDE, prevResult }));
    assertEquals(pair.limits().links, ["lo", "v1", HOST_END]);
    assertEquals(pair.limits().filters, []);
  });
  await t.step("twice in one chain: the IFB is listed once", async () => {
    using hosts = TestHosts.create();
    const pair = new LimitedPair(hosts);
    const prevResult = await pair.add(WIDE);
    const again = await pair.add({ ...WIDE, prevResult });
    assertEquals(again.interfaces.length, 3);
  });
});

rootTest("bandwidth.add() keeps a third-party root qdisc", async () => {
  using hosts = TestHosts.create();
  const pair = new LimitedPair(hosts);
  const root = ["dev", HOST_END, "root", "handle", "7:", "htb"];
  runIn(hosts.host, "tc", "qdisc", "add", ...root);
  const before = pair.limits();
  const output = await pair.run("ADD", WIDE);
  assertFailure(output, 999, `Cannot limit "${HOST_END}"`);
  assertStringIncludes(output.json.details, "EEXIST");
  assertEquals(pair.limits(), before);
  assertSuccess(await pair.run("DEL", WIDE));
  assertEquals(pair.limits(), before);
});

rootTest(
  "bandwidth.del() removes everything even if parts of the input are missing",
  async (t) => {
    const rows: [name: string, keys: object, env: Record<string, string>][] = [
      ["all of it", {}, {}],
      ["no limits", { egressRate: undefined, egressBurst: undefined }, {}],
      ["limits that ADD refuses", { egressBurst: undefined }, {}],
      ["keys of the wrong type", { egressRate: "1", runtimeConfig: [] }, {}],
      [
        "invalid subnets",
        { shapedSubnets: "x", unshapedSubnets: [1] },
        {},
      ],
      ["no prevResult", { prevResult: undefined }, {}],
      ["an invalid prevResult", { prevResult: { interfaces: 7 } }, {}],
      ["a prevResult of another version", {
        prevResult: { cniVersion: "0.2.0" },
      }, {}],
      ["no namespace", {}, { CNI_NETNS: "" }],
      ["a namespace that is gone", {}, { CNI_NETNS: "/run/netns/none" }],
      ["a namespace that is a file", {}, { CNI_NETNS: "/etc/hostname" }],
      ["another interface name in the sandbox", {}, {}],
    ];
    await eachRow(t, rows, async ([, keys, env]) => {
      using hosts = TestHosts.create();
      const pair = new LimitedPair(hosts);
      const before = pair.limits();
      const prevResult = await pair.add(WIDE);
      const all = { ...WIDE, prevResult, ...keys };
      for (let time = 0; time < 2; time++) {
        const { exitCode, stdout } = await pair.run("DEL", all, { env });
        assertEquals([exitCode, stdout], [0, ""]);
      }
      assertEquals(pair.limits().links, before.links);
      if (Object.keys(env).length === 0) {
        assertEquals(pair.limits(), before);
      }
    });
    await t.step("the deleted veth pair", async () => {
      using hosts = TestHosts.create();
      const pair = new LimitedPair(hosts);
      const prevResult = await pair.add(WIDE);
      runIn(hosts.host, "ip", "link", "del", HOST_END);
      assertSuccess(await pair.run("DEL", { ...WIDE, prevResult }));
      assertEquals(pair.limits().links, ["lo"]);
    });
    await t.step("an attachment that never existed", async () => {
      using hosts = TestHosts.create();
      const pair = new LimitedPair(hosts);
      assertSuccess(await pair.run("DEL", WIDE));
      assertSuccess(await pair.run("DEL", {}, { ifName: "eth7" }));
    });
  },
);

rootTest("bandwidth.del() keeps another attachment's limits", async (t) => {
  const before = { ingressRate: 100e6, ingressBurst: 10e6 };
  const rows: [string, object, string, string, string][] = [
    ["it is not said whose", {}, "", "1.1.0", "tbf"],
    ["by prevResult", { prevResult: { interfaces: [] } }, "", "1.1.0", "tbf"],
    ["by the alias", {}, "cni/net/dummy/container-veth", "1.1.0", "tbf"],
    ["before 0.4.0 it counts as this one's", {}, "", "0.3.1", "noqueue"],
    [
      "but this one's by the alias",
      {},
      "cni/cni-plugin-bandwidth-test/dummy/container-veth",
      "1.1.0",
      "noqueue",
    ],
  ];
  await eachRow(t, rows, async ([, keys, alias, cniVersion, left]) => {
    using hosts = TestHosts.create();
    const pair = new LimitedPair(hosts, { cniVersion });
    await pair.add(before);
    runIn(hosts.host, "ip", "link", "set", HOST_END, "alias", alias);
    const all = { prevResult: undefined, ...keys };
    assertSuccess(await pair.run("DEL", all));
    const [root] = tcJson(hosts.host, "qdisc", "show", "dev", HOST_END);
    assertEquals(root.kind, left);
  });
});
