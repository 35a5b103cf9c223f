import {
  assert,
  assertEquals,
  assertMatch,
  assertNotEquals,
} from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import {
  assertSuccess,
  HOST_END,
  IFB,
  LimitedPair,
  LIMITS,
  WIDE,
} from "./testing/limited_pair.ts";
import { type CallOutput, TestHosts } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";

rootTest("bandwidth creates an IFB for each attachment", async (t) => {
  const orders = [["eth0", "eth1"], ["eth1", "eth0"]] as const;
  await eachRow(t, orders, async ([first, second]) => {
    using hosts = TestHosts.create();
    const pairs = {
      eth0: new LimitedPair(hosts, { hostEnd: "v0", ifName: "eth0" }),
      eth1: new LimitedPair(hosts, { hostEnd: "v1", ifName: "eth1" }),
    };
    const before = pairs.eth0.limits();
    const keys = {
      eth0: { ...WIDE, prevResult: await pairs.eth0.add(WIDE) },
      eth1: { ...LIMITS, prevResult: await pairs.eth1.add(LIMITS) },
    };
    const names = [keys.eth0, keys.eth1]
      .map(({ prevResult }) => prevResult.interfaces[2].name);
    assertEquals(names[0], IFB);
    assertMatch(names[1], /^bwp[0-9a-f]{12}$/);
    assertNotEquals(names[1], IFB);
    for (const name of orders[0]) {
      assertSuccess(await pairs[name].run("CHECK", keys[name]));
    }
    assertSuccess(await pairs[first].run("DEL", keys[first]));
    assertSuccess(await pairs[second].run("CHECK", keys[second]));
    assertSuccess(await pairs[second].run("DEL", keys[second]));
    assertEquals(pairs.eth0.limits(), before);
  }, ([first, second]) => `${first} is detached before ${second}`);
});

rootTest(
  "bandwidth identifies the Go plugin's IFBs, which have no alias",
  async (t) => {
    /** Creates the Go plugin's limit of the container's outgoing traffic. */
    const limitAsGo = (hosts: TestHosts, hostEnd: string): void => {
      const commands = [
        `ip link add ${IFB} up type ifb`,
        `tc qdisc add dev ${hostEnd} ingress`,
        `tc filter add dev ${hostEnd} parent ffff: protocol all prio 1 u32 match u32 0 0 action mirred egress redirect dev ${IFB}`,
      ];
      for (const command of commands) {
        const [program = "", ...args] = command.split(" ");
        runIn(hosts.host, program, ...args);
      }
    };
    const other = { hostEnd: "v1", ifName: "eth1" };
    await t.step("ADD replaces an old IFB of this attachment", async () => {
      using hosts = TestHosts.create();
      const pair = new LimitedPair(hosts);
      limitAsGo(hosts, HOST_END);
      const { interfaces } = await pair.add(WIDE);
      assertEquals(interfaces[2].name, IFB);
      assertEquals(ipJson(hosts.host, "link", "show", IFB)[0].mtu, 1024);
    });
    await t.step("DEL deletes an IFB without a redirection to it", async () => {
      using hosts = TestHosts.create();
      const pair = new LimitedPair(hosts);
      runIn(hosts.host, "ip", "link", "add", IFB, "type", "ifb");
      assertSuccess(await pair.run("DEL", WIDE));
      assertEquals(ipJson(hosts.host, "link").length, 2);
    });
    const changes: readonly [name: string, script: string][] = [
      ["renamed", "ip link set container-veth name wan"],
      [
        "replaced by a macvlan",
        `ip link set container-veth name wan
         ip link add container-veth link wan type macvlan`,
      ],
      [
        "replaced by the end of another pair",
        `ip link set container-veth name wan
         ip link add container-veth type veth`,
      ],
    ];
    await eachRow(t, changes, async ([, script]) => {
      using hosts = TestHosts.create();
      const pair = new LimitedPair(hosts);
      const otherPair = new LimitedPair(hosts, other);
      const before = pair.limits();
      limitAsGo(hosts, HOST_END);
      const limited = pair.limits();
      runIn(hosts.sandbox, "sh", "-ec", `ip link set eth1 name lan; ${script}`);
      assertSuccess(await otherPair.run("DEL", WIDE));
      assertEquals(pair.limits(), limited);
      assertSuccess(await pair.run("DEL", WIDE));
      assertEquals(pair.limits().links, before.links);
    }, ([name]) => `its container's interface is ${name}, and it is deleted`);
    await t.step("DEL keeps the IFB of another attachment", async () => {
      using hosts = TestHosts.create();
      const pair = new LimitedPair(hosts);
      const otherPair = new LimitedPair(hosts, other);
      limitAsGo(hosts, HOST_END);
      const before = pair.limits();
      const { interfaces } = await otherPair.add(WIDE);
      assertNotEquals(interfaces[2].name, IFB);
      assertSuccess(await otherPair.run("DEL", WIDE));
      assertEquals(pair.limits(), before);
      assertSuccess(await pair.run("DEL", WIDE));
      assertEquals(ipJson(hosts.host, "link").length, 3);
    });
    await t.step(
      "DEL without the sandbox deletes the IFB, as the Go plugin does",
      async () => {
        using hosts = TestHosts.create();
        const pair = new LimitedPair(hosts);
        limitAsGo(hosts, HOST_END);
        assertSuccess(await pair.run("DEL", WIDE, { env: { CNI_NETNS: "" } }));
        assertEquals(ipJson(hosts.host, "link").length, 2);
      },
    );
    await t.step("DEL keeps a link that is not an IFB", async () => {
      using hosts = TestHosts.create();
      const pair = new LimitedPair(hosts);
      runIn(hosts.host, "ip", "link", "add", IFB, "type", "bridge");
      const { interfaces } = await pair.add(WIDE);
      assertNotEquals(interfaces[2].name, IFB);
      assertSuccess(await pair.run("DEL", WIDE));
      assertEquals(ipJson(hosts.host, "link").length, 3);
    });
  },
);

rootTest("bandwidth.gc() deletes the IFBs of stale attachments", async (t) => {
  const valid = [{ containerID: "c1", ifname: "eth0" }];
  const rows: [name: string, keys: object, left: string[]][] = [
    ["one is valid", { "cni.dev/valid-attachments": valid }, ["v0", "v2"]],
    ["none is valid", { "cni.dev/valid-attachments": [] }, ["v2"]],
    ["nothing is said", {}, ["v0", "v1", "v2"]],
  ];
  await eachRow(t, rows, async ([, keys, left]) => {
    using hosts = TestHosts.create();
    const pairs = [
      { hostEnd: "v0", ifName: "eth0", containerId: "c1" },
      { hostEnd: "v1", ifName: "eth1", containerId: "c1" },
      { hostEnd: "v2", ifName: "eth2", network: "cni-plugin-bandwidth-test2" },
    ].map((options) => new LimitedPair(hosts, options));
    const ifbs = new Map<string, string>();
    for (const pair of pairs) {
      const { interfaces } = await pair.add(WIDE);
      ifbs.set(interfaces[2].name, pair.hostEnd);
    }
    runIn(hosts.host, "ip", "link", "add", "bwp000000000000", "type", "ifb");
    assertSuccess(await pairs[0]?.run("GC", keys) as CallOutput);
    const found = pairs[0]?.limits().links.flatMap((link) =>
      ifbs.get(link) ?? []
    );
    assertEquals(found, left);
    assert(pairs[0]?.limits().links.includes("bwp000000000000"));
  });
});
