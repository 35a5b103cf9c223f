import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import {
  assertFailure,
  assertSuccess,
  HOST_END,
  IFB,
  LimitedPair,
  tcJson,
  WIDE,
} from "./testing/limited_pair.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";

rootTest(
  "bandwidth.check() reports each change, and repair() restores the limits",
  async (t) => {
    const bucket = (
      dev: string,
      { rate = "100mbit", burst = "1250000", limit = "1562500" } = {},
    ): string =>
      `tc qdisc change dev ${dev} root handle 1: ` +
      `tbf rate ${rate} burst ${burst} limit ${limit}`;
    const noFilter = `tc filter del dev ${HOST_END} ingress`;
    const filter = (match: string, target: string): string =>
      `tc filter add dev ${HOST_END} ingress protocol all prio 1 ` +
      `u32 match ${match} action mirred egress redirect dev ${target}`;
    const rows: [name: string, commands: string[], ...texts: string[]][] = [
      [
        "no limit towards the container",
        [`tc qdisc del dev ${HOST_END} root`],
        `Failed to find qdisc: there is no tbf on "${HOST_END}"`,
      ],
      [
        "another queue towards the container",
        [
          `tc qdisc del dev ${HOST_END} root`,
          `tc qdisc add dev ${HOST_END} root bfifo`,
        ],
        "Failed to find qdisc",
      ],
      [
        "another rate",
        [bucket(HOST_END, { rate: "99mbit" })],
        "Rate doesn't match",
      ],
      [
        "another rate, limit and burst",
        [bucket(HOST_END, { rate: "99mbit", limit: "9", burst: "1248000" })],
        "Rate doesn't match",
        "Limit doesn't match",
        "Buffer doesn't match",
      ],
      [
        "another limit",
        [bucket(HOST_END, { limit: "1562501" })],
        "Limit doesn't match",
      ],
      [
        "another burst",
        [bucket(HOST_END, { burst: "1248000" })],
        "Buffer doesn't match",
      ],
      [
        "no limit out of the container",
        [`tc qdisc del dev ${IFB} root`],
        `Failed to find qdisc: there is no tbf on "${IFB}"`,
      ],
      ["another rate out of the container", [bucket(IFB)], `on "${IFB}"`],
      ["no IFB", [`ip link del ${IFB}`], "get ifb device"],
      [
        "the IFB down",
        [`ip link set ${IFB} down`],
        `Interface "${IFB}" is down`,
      ],
      [
        "no redirection",
        [noFilter],
        `"${HOST_END}" does not redirect to "${IFB}"`,
      ],
      [
        "no qdisc to redirect",
        [`tc qdisc del dev ${HOST_END} ingress`],
        "does not redirect",
      ],
      [
        "redirection to another link",
        [noFilter, filter("u32 0 0", "lo")],
        "does not redirect",
      ],
      [
        "redirection of some packets",
        [noFilter, filter("ip dst 10.0.0.0/8", IFB)],
        "does not redirect",
      ],
    ];
    await eachRow(t, rows, async ([name, commands, ...texts]) => {
      using hosts = TestHosts.create();
      const pair = new LimitedPair(hosts);
      const keys = { ...WIDE, prevResult: await pair.add(WIDE) };
      assertSuccess(await pair.run("CHECK", keys));
      for (const command of commands) {
        const [program = "", ...args] = command.split(" ");
        runIn(hosts.host, program, ...args);
      }
      const checked = await pair.run("CHECK", keys);
      for (const text of texts) assertFailure(checked, 999, text);
      const { json } = await pair.run("REPAIR", keys);
      // Another program's queue stays.
      const isForeign = name === "another queue towards the container";
      assertEquals(json.remaining.length, isForeign ? 1 : 0);
      if (!isForeign) assertSuccess(await pair.run("CHECK", keys));
      // In every case, DEL and another ADD still work.
      assertSuccess(await pair.run("DEL", keys));
      assertEquals(ipJson(hosts.host, "link").length, 2);
    });
    await t.step("no prevResult", async () => {
      using hosts = TestHosts.create();
      const pair = new LimitedPair(hosts);
      const checked = await pair.run("CHECK", { prevResult: undefined });
      assertFailure(checked, 7, "must be called as a chained plugin");
    });
  },
);

rootTest("bandwidth.check() accepts limits of any size", async (t) => {
  const rows: [rate: number, burst: number][] = [
    [1, 1],
    [8, 2 ** 31 - 1],
    [1e3, 2 ** 34],
    [1e6, 2 ** 31 - 1],
    [10e6, 2 ** 31 - 1],
    [123_456_789, 7_654_321],
    [999_999_999, 12_345],
    [40e9, 1e9],
    [2 ** 53 - 1, 2 ** 35 - 16],
    [2 ** 64, 2 ** 35 - 16],
  ];
  for (const scope of [{}, { unshapedSubnets: ["10.0.0.0/8"] }]) {
    for (const [rate, burst] of rows) {
      const name = `${rate} bit/s, ${burst} bits${
        "unshapedSubnets" in scope ? ", by classes" : ""
      }`;
      await t.step(name, async () => {
        using hosts = TestHosts.create();
        const pair = new LimitedPair(hosts);
        const limits = {
          ...scope,
          ingressRate: rate,
          ingressBurst: burst,
          egressRate: rate,
          egressBurst: burst,
        };
        const keys = { ...limits, prevResult: await pair.add(limits) };
        assertSuccess(await pair.run("CHECK", keys));
        assertSuccess(await pair.run("DEL", keys));
      });
    }
  }
});

rootTest("bandwidth limits shaped or all but unshaped subnets", async (t) => {
  const networks = ["10.9.0.0/16", "2001:db8:9::/49", "0.0.0.0/0"];
  const classes = (dev: string, host: TestHosts["host"]): string[] =>
    runIn(host, "tc", "class", "show", "dev", dev).trim().split("\n")
      .map((line) =>
        (/htb (\S+) .*rate (\S+) ceil (\S+)/.exec(line) ?? []).slice(1, 4)
          .join(" ")
      )
      .sort();
  await eachRow(
    t,
    [
      ["shapedSubnets", "0x1", "1:30"],
      ["unshapedSubnets", "0x30", "1:1"],
    ] as const,
    async ([key, byDefault, filtered]) => {
      using hosts = TestHosts.create();
      const pair = new LimitedPair(hosts);
      const before = pair.limits();
      const limits = { ...WIDE, [key]: networks };
      const keys = { ...limits, prevResult: await pair.add(limits) };
      for (
        const [dev, rate, side] of [[HOST_END, "100Mbit", 12], [
          IFB,
          "50Mbit",
          16,
        ]] as const
      ) {
        const [root] = tcJson(hosts.host, "qdisc", "show", "dev", dev);
        assertEquals([root.kind, root.options.default], ["htb", byDefault]);
        assertEquals(classes(dev, hosts.host), [
          "1:1 800Gbit 800Gbit",
          `1:30 ${rate} ${rate}`,
        ]);
        const filters = runIn(hosts.host, "tc", "filter", "show", "dev", dev);
        const found = [...filters.matchAll(/match (\S+ at \d+)|flowid (\S+)/g)]
          .map(([, match, flow]) => match ?? flow);
        const six = side === 12 ? 8 : 24;
        assertEquals(found, [
          filtered,
          `20010db8/ffffffff at ${six}`,
          `00090000/ffff8000 at ${six + 4}`,
          filtered,
          `0a090000/ffff0000 at ${side}`,
          filtered,
          "00000000/00000000 at 0",
        ]);
      }
      assertSuccess(await pair.run("CHECK", keys));
      assertSuccess(await pair.run("DEL", keys));
      assertEquals(pair.limits(), before);
    },
  );
  const rows: [name: string, command: string, text: string][] = [
    [
      "another rate",
      "class change dev DEV parent 1: classid 1:30 htb rate 1mbit",
      "Class doesn't match",
    ],
    ["no filters", "filter del dev DEV parent 1:", "Filter doesn't match"],
    ["no queue", "qdisc del dev DEV root", "there is no htb"],
  ];
  for (const [name, command, text] of rows) {
    await eachRow(t, [HOST_END, IFB], async (dev) => {
      using hosts = TestHosts.create();
      const pair = new LimitedPair(hosts);
      const limits = { ...WIDE, unshapedSubnets: networks };
      const keys = { ...limits, prevResult: await pair.add(limits) };
      runIn(hosts.host, "tc", ...command.replace("DEV", dev).split(" "));
      assertFailure(
        await pair.run("CHECK", keys),
        999,
        `${text} on "${dev}"`,
      );
    }, (dev) => `check() notices: ${name} on ${dev}`);
  }
  await t.step("check() reports different subnets", async () => {
    using hosts = TestHosts.create();
    const pair = new LimitedPair(hosts);
    const limits = { ...WIDE, unshapedSubnets: networks };
    const prevResult = await pair.add(limits);
    for (
      const [subnets, text] of [
        [{ shapedSubnets: networks }, "Default class doesn't match"],
        [{ unshapedSubnets: ["10.8.0.0/16"] }, "Filter doesn't match"],
        [{}, "there is no tbf"],
      ] as const
    ) {
      const keys = { ...WIDE, ...subnets, prevResult };
      assertFailure(await pair.run("CHECK", keys), 999, text);
    }
  });
});

rootTest("bandwidth.check() reports all differences", async () => {
  using hosts = TestHosts.create();
  const pair = new LimitedPair(hosts);
  const prevResult = await pair.add(WIDE);
  runIn(hosts.host, "tc", "qdisc", "del", "dev", HOST_END, "root");
  runIn(hosts.host, "tc", "filter", "del", "dev", HOST_END, "ingress");
  runIn(hosts.host, "ip", "link", "set", IFB, "down");
  const { json } = await pair.run("CHECK", { ...WIDE, prevResult });
  assertEquals(json.msg.includes(`no tbf on "${HOST_END}"`), true, json.msg);
  assertEquals(json.details.split("\n"), [
    `also: Interface "${IFB}" is down`,
    `also: "${HOST_END}" does not redirect to "${IFB}"`,
  ]);
});
