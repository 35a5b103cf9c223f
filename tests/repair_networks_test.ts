/**
 * `cni repair` and `cni daemon --repair` on a node whose networks use host access,
 * masquerade by family with outbound addresses, limits, sbr and vrf: what another
 * program removes comes back, and packets flow again.
 */

import { assertEquals, assertMatch } from "@std/assert";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../testing/capabilities.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { eventually } from "./_harness/eventually.ts";
import { needsBin } from "./_harness/executables.ts";
import { needsLinks } from "./_harness/link_kinds.ts";
import { NodeDaemon } from "./_harness/node_daemon.ts";
import { needsInetRules, needsRuleTools } from "./_harness/rules.ts";
import { eachRow } from "./_harness/table.ts";
import { ToolHost } from "./_harness/tool_host.ts";

const needsPackets = allOf(
  needsBin,
  needsLinks("macvlan"),
  ignoreUnless(["ping", "tc"].every(hasCommand), "needs ping and tc"),
);
const needs = allOf(needsPackets, needsRuleTools, needsInetRules);

/**
 * The namespace `outside` answers only what comes from the outbound address, and is
 * the router of the macvlans.
 */
const SET_UP = `
ip link set lo up
ip netns add outside
outside() { ip -n outside "$@"; }
outside link set lo up
for name in out lan ipv; do
  ip link add $name type veth peer name $name netns outside
  ip link set $name up
  outside link set $name up
done
ip address add 192.0.2.1/24 dev out
ip address add 192.0.2.9/24 dev out
outside address add 192.0.2.2/24 dev out
outside route add unreachable 192.0.2.1
ip address add 10.7.2.200/24 dev lan
ip address add 10.7.3.200/24 dev ipv
outside address add 10.7.2.1/24 dev lan
outside address add 198.51.100.1/32 dev lo`;

const SHIMS = "ip -o link | grep -o '\\bcnih[0-9a-f]*' | sort -u";
const eachAccessLink = (commands: string): string =>
  `for s in $(${SHIMS}); do ${commands}; done`;

const HAS_IPVLAN = !needsLinks("ipvlan").ignore;

/** A ping: from the host or a container, with options, to an address. */
type Ping = readonly [from: "host" | "c1" | "c2" | "c3" | "c4", words: string];

const TO_MACVLAN: Ping = ["host", "10.7.2.2"];
const TO_IPVLAN: Ping = ["host", "10.7.3.2"];
const FROM_PTP: Ping = ["c1", "192.0.2.2"];
const FROM_BRIDGE: Ping = ["c2", "192.0.2.2"];
/** Not every kernel has ipvlan. */
const TO_SHIMS = HAS_IPVLAN ? [TO_MACVLAN, TO_IPVLAN] : [TO_MACVLAN];
const ALL = [...TO_SHIMS, FROM_PTP, FROM_BRIDGE];

/** What other programs do to the host, and which packets then get no answer. */
const LOSSES: readonly [name: string, script: string, lost: Ping[]][] = [
  ["nft flush ruleset", "nft flush ruleset", [FROM_PTP, FROM_BRIDGE]],
  [
    "ip route flush, of the links to macvlan and ipvlan",
    eachAccessLink("ip route flush dev $s"),
    TO_SHIMS,
  ],
  [
    "these links are taken down",
    eachAccessLink("ip link set $s down"),
    TO_SHIMS,
  ],
  [
    "these links are deleted",
    eachAccessLink("ip link del $s"),
    TO_SHIMS,
  ],
  [
    "ip route flush, of the veth pair of ptp",
    "ip route flush root 10.1.0.0/24",
    [FROM_PTP],
  ],
];

/** A node with a container for each plugin, and calls of programs on it. */
class Scene implements AsyncDisposable {
  readonly host: ToolHost;

  private constructor(host: ToolHost) {
    this.host = host;
  }

  static async start(): Promise<Scene> {
    const scene = new Scene(await ToolHost.create());
    await scene.host.sh(SET_UP);
    return scene;
  }

  /** Attaches containers to all kinds of networks. */
  async attachAll(): Promise<void> {
    const { host } = this;
    const masquerade = {
      ipMasq: true,
      ipMasqFamilies: [4],
      outboundAddresses: ["192.0.2.9"],
    };
    const routes = [{ dst: "0.0.0.0/0" }, { dst: "::/0" }];
    const subnets = (number: number): object => ({
      ...host.hostLocal(`10.1.${number}.0/24`, `fd00:${number}::/64`),
      routes,
    });
    const rates = { type: "bandwidth", ingressRate: 8e6, egressRate: 8e6 };
    const access = { hostAccess: true };
    host.addNetwork("net-ptp", [
      { type: "ptp", ...masquerade, ipam: subnets(0) },
    ]);
    host.addNetwork("net-bridge", [{
      type: "bridge",
      bridge: "br0",
      isGateway: true,
      ...masquerade,
      ipam: subnets(2),
    }, rates]);
    const lan = host.hostLocal("10.7.2.0/24");
    host.addNetwork("net-macvlan", [
      { type: "macvlan", master: "lan", ...access, ipam: lan },
      rates,
    ]);
    const ipv = host.hostLocal("10.7.3.0/24");
    host.addNetwork("net-ipvlan", [
      { type: "ipvlan", master: "ipv", ...access, ipam: ipv },
    ]);
    const networks = ["ptp", "bridge", "macvlan"];
    if (HAS_IPVLAN) networks.push("ipvlan");
    for (const [index, kind] of networks.entries()) {
      await this.host.succeed(`netns add c${index + 1}`);
      await this.host.succeed(`add net-${kind} c${index + 1}`);
    }
  }

  /** Lists which pings get an answer. */
  async answered(pings: readonly Ping[]): Promise<Ping[]> {
    const answers = await Promise.all(pings.map(async ([from, words]) => {
      const enter = from === "host"
        ? []
        : ["nsenter", `--net=/run/netns/${from}`];
      const ping = ["ping", "-nqc1", "-W1", ...words.split(" ")];
      return (await this.host.run([...enter, ...ping])).code === 0;
    }));
    return pings.filter((_, index) => answers[index]);
  }

  /** Waits until all pings get an answer. */
  async assertAnswered(pings: readonly Ping[]): Promise<void> {
    await eventually(
      "packets flow",
      async () => (await this.answered(pings)).length === pings.length,
      async () => `, but only ${await this.answered(pings)}`,
    );
  }

  /** Asserts that none of these gets an answer. */
  async assertLost(pings: readonly Ping[]): Promise<void> {
    assertEquals(await this.answered(pings), []);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]();
  }
}

rootTest(
  "cni repair: packets flow again in networks of all kinds",
  needs,
  async (t) => {
    await using scene = await Scene.start();
    await scene.attachAll();
    await scene.assertAnswered(ALL);
    const rules = "nft -s list ruleset 2>/dev/null";
    const before = await scene.host.sh(rules);
    await eachRow(t, LOSSES, async ([, script, lost]) => {
      await scene.host.sh(script);
      await scene.assertLost(lost);
      await scene.host.succeed("repair --all");
      await scene.assertAnswered(ALL);
      assertEquals(
        (await scene.host.sh(rules)).split("\n").sort(),
        before.split("\n").sort(),
      );
    });
    const limits = ["c2", "c3"].map((name) =>
      name === "c2" ? "tc qdisc show" : `tc -n ${name} qdisc show`
    ).map((command) => `${command} | grep -o 'tbf.*\\|ingress.*'`).join("; ");
    const limited = await scene.host.sh(limits);
    await t.step("tc qdisc del, on the host and in the container", async () => {
      const port = "$(ip -o link show master br0 | grep -o 'veth[0-9a-f]*')";
      for (const parent of ["root", "ingress"]) {
        await scene.host.sh(`tc qdisc del dev ${port} ${parent}`);
        await scene.host.sh(`tc -n c3 qdisc del dev eth0 ${parent}`);
        const { code } = await scene.host.cni("repair --all");
        assertEquals(code, 1, "the container's own limits are kept");
        await scene.host.succeed("repair --all --sandbox");
        assertEquals(
          (await scene.host.sh(limits)).split("\n").sort(),
          limited.split("\n").sort(),
        );
      }
      await scene.assertAnswered(ALL);
    });
  },
);

rootTest(
  "cni daemon --repair: packets flow again in networks of all kinds",
  needs,
  async (t) => {
    await using scene = await Scene.start();
    await scene.attachAll();
    using hosts = TestHosts.create();
    await using daemon = await NodeDaemon.start(hosts, {
      wrapper: scene.host.enter,
      socketDir: "/run/cni",
      args: ["--repair"],
      env: { CNI_PATH: scene.host.path },
    });
    const queue: typeof LOSSES[number] = [
      "tc qdisc del",
      "tc qdisc del dev $(ip -o link show master br0 | grep -o 'veth[0-9a-f]*') root",
      [],
    ];
    await eachRow(t, [...LOSSES, queue], async ([, script]) => {
      const repaired = await daemon.metric("cni_daemon_repairs_total");
      await scene.host.sh(script);
      await eventually(
        "it has repaired something",
        async () =>
          await daemon.metric("cni_daemon_repairs_total") > repaired &&
          (await scene.host.cni("repair --all --dry-run")).code === 0,
        () => daemon.log,
      );
      await scene.assertAnswered(ALL);
      assertEquals(await daemon.metric("cni_daemon_repairs_failed"), 0);
    });
    await t.step("cni list shows the repairs", async () => {
      const rows = JSON.parse(await scene.host.succeed("list --json"));
      const [row] = rows.filter((
        { network }: { network: string },
      ) => network === "net-bridge");
      assertEquals(row.lastRepair.repaired.length, 1);
      assertMatch(row.lastRepair.repaired[0], /^bandwidth: /);
      assertEquals([row.hostAccess, row.repairError], [null, null]);
      assertMatch(
        await scene.host.succeed("list --wide"),
        /REPAIRED .*HOST ACCESS/,
      );
    });
  },
);

/** Policies of the container `c1`, and which packets then get no answer. */
const BY_NET1: Ping = ["c1", "-I 10.7.2.2 198.51.100.1"];
const POLICY_LOSSES: readonly [name: string, script: string][] = [
  ["a rule is deleted", "ip -n c1 rule del from 10.7.2.2"],
  ["ip rule flush", "ip -n c1 rule flush"],
  ["ip route flush table 100", "ip -n c1 route flush table 100"],
  [
    "rule and table are gone",
    "ip -n c1 rule flush; ip -n c1 route flush table 100",
  ],
];

rootTest(
  "cni repair --sandbox: packets flow again by the rules of sbr",
  needsPackets,
  async (t) => {
    await using scene = await Scene.start();
    const { host } = scene;
    host.addNetwork("pods", [{
      type: "bridge",
      bridge: "br0",
      isDefaultGateway: true,
      ipam: host.hostLocal("10.1.0.0/24"),
    }]);
    host.addNetwork("net-sbr", [
      {
        type: "macvlan",
        master: "lan",
        ipam: host.hostLocal("10.7.2.0/24"),
      },
      { type: "sbr" },
    ]);
    await scene.host.succeed("netns add c1");
    await scene.host.succeed("add pods c1");
    await scene.host.succeed("add net-sbr c1 --ifname net1");
    await scene.assertAnswered([BY_NET1]);
    const rule = "ip -n c1 rule show from 10.7.2.2";
    const [, before] = (await scene.host.sh(rule)).split(":");
    await eachRow(t, POLICY_LOSSES, async ([, script]) => {
      await scene.host.sh(script);
      await scene.assertLost([BY_NET1]);
      const { code } = await host.cni("repair c1");
      assertEquals(code, 1, "the container's own rules are kept");
      await scene.host.succeed("repair c1 --sandbox");
      await scene.assertAnswered([BY_NET1]);
      assertEquals((await scene.host.sh(rule)).split(":")[1], before);
      await scene.host.succeed("check net-sbr c1 --ifname net1");
    });
    await scene.host.succeed("del net-sbr c1 --ifname net1");
    assertEquals(
      await scene.host.sh(`${rule}; ip -n c1 route show table all`)
        .then((text) => / table 10\d |10\.7\.2\./.test(text)),
      false,
    );
  },
);

rootTest(
  "cni repair --sandbox: packets flow again in a VRF",
  allOf(needsPackets, needsLinks("vrf")),
  async (t) => {
    await using scene = await Scene.start();
    const { host } = scene;
    const lan = host.hostLocal("10.7.2.0/24");
    const routes = [{ dst: "0.0.0.0/0" }];
    host.addNetwork("net-vrf", [
      { type: "macvlan", master: "lan", ipam: { ...lan, routes } },
      { type: "vrf", vrfname: "blue" },
    ]);
    await scene.host.succeed("netns add c1");
    await scene.host.succeed("add net-vrf c1 --ifname net1");
    const byVrf: Ping = ["c1", "-I blue 198.51.100.1"];
    await scene.assertAnswered([byVrf]);
    // The kernel's own route to the subnet comes back as one of the plugin's.
    const table = "ip -n c1 route show vrf blue | sed 's/proto kernel //'";
    const before = await scene.host.sh(table);
    await eachRow(t, [
      ["it leaves the VRF", "ip -n c1 link set net1 nomaster"],
      ["the VRF is deleted", "ip -n c1 link del blue"],
      ["its table is flushed", "ip -n c1 route flush vrf blue"],
    ], async ([, script = ""]) => {
      await scene.host.sh(script);
      await scene.assertLost([byVrf]);
      await scene.host.succeed("repair c1 --sandbox");
      await scene.assertAnswered([byVrf]);
      assertEquals(await scene.host.sh(table), before);
      await scene.host.succeed("check net-vrf c1 --ifname net1");
    });
  },
);
