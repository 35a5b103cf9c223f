/** `cni doctor --pod`: where the packets of a container end. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import type { CniFlags } from "../flags.ts";
import type { ShownCause, ShownProbe } from "./show.ts";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { chooseStyle } from "../../base/command_line/style.ts";
import { DoctorScene } from "../doctor/testing/scene.ts";
import { validate } from "../../tests/_harness/json_schema.ts";
import { needsInetRules, needsRuleTools } from "../../tests/_harness/rules.ts";
import schema from "./pod.schema.json" with { type: "json" };

const NEEDS = allOf(needsRuleTools, needsInetRules);
const WEB = "default/web", DB = "default/db";

/** A fault on the way of a container's first address. */
interface Fault {
  readonly name: string;
  readonly pod: string;
  readonly text: RegExp;
  readonly command?: RegExp;
  /** Shell scripts; $end is the host's end of the container's veth pair. */
  readonly breaks: string;
  readonly fixes: string;
  readonly where?: (scene: DoctorScene) => DoctorScene["other"];
}

const inWeb = ({ hosts }: DoctorScene): DoctorScene["other"] => hosts.sandbox;
const inDb = ({ other }: DoctorScene): DoctorScene["other"] => other;
const FORWARDING = "/proc/sys/net/ipv4/ip_forward";

const FAULTS: readonly Fault[] = [
  {
    name: "the interface is down",
    pod: DB,
    text: /"eth0" is down/,
    breaks: "ip link set eth0 down",
    fixes: "ip link set eth0 up; ip route add default via 10.2.0.1",
    where: inDb,
  },
  {
    name: "the address is gone",
    pod: DB,
    text: /"eth0" lacks address 10.2.0.2\/24/,
    breaks: "ip addr del 10.2.0.2/24 dev eth0",
    fixes:
      "ip addr add 10.2.0.2/24 dev eth0; ip route add default via 10.2.0.1",
    where: inDb,
  },
  {
    name: "the host's end is down",
    pod: DB,
    text: /Interface "veth\w+" is down/,
    breaks: "ip link set $end down",
    fixes: "ip link set $end up",
  },
  {
    name: "the host's end is not on its bridge",
    pod: DB,
    text: /"veth\w+" is not a port of .*"lan0"/,
    breaks: "ip link set $end nomaster",
    fixes: "ip link set $end master lan0",
  },
  {
    name: "the bridge is down",
    pod: DB,
    text: /Interface "lan0" is down/,
    breaks: "ip link set lan0 down",
    fixes: "ip link set lan0 up",
  },
  {
    name: "a burst that is smaller than a packet",
    pod: WEB,
    text: /has a burst of \d+ bytes: larger packets never pass/,
    breaks:
      "tc qdisc replace dev $end root handle 1: tbf rate 1mbit burst 200 latency 25ms",
    fixes:
      "tc qdisc replace dev $end root handle 1: tbf rate 1gbit burst 1000000 latency 25ms",
  },
  {
    name: "the route is gone",
    pod: WEB,
    text: /"eth0" lacks route 0.0.0.0\/0 via 10.1.0.1/,
    breaks: "ip route del default",
    fixes: "ip route add default via 10.1.0.1",
    where: inWeb,
  },
  {
    name: "the gateway's address is gone",
    pod: DB,
    text: /"lan0" lacks address 10.2.0.1\/24/,
    breaks: "ip addr del 10.2.0.1/24 dev lan0",
    fixes: "ip addr add 10.2.0.1/24 dev lan0",
  },
  {
    name: "the gateway is silent",
    pod: DB,
    text: /chain "bridge doctor c" \(input\) has policy drop/,
    breaks:
      "nft 'add table bridge doctor { chain c { type filter hook input priority 0; policy drop; }; }'; nsenter --net=$netns ip neigh flush all",
    fixes: "nft delete table bridge doctor; ip neigh flush all",
  },
  {
    name: "the bridge does not answer ARP",
    pod: DB,
    text: /ARP is off on "lan0", so the node does not answer for its/,
    breaks: "ip link set lan0 arp off",
    fixes: "ip link set lan0 arp on",
  },
  {
    name: "the host does not forward",
    pod: WEB,
    text: /net.ipv4.ip_forward is 0/,
    breaks: `echo 0 > ${FORWARDING}`,
    fixes: `echo 1 > ${FORWARDING}`,
  },
  {
    name: "the host does not forward from one link",
    pod: WEB,
    text: /net.ipv4.conf.veth\w+.forwarding is 0/,
    breaks: "echo 0 > /proc/sys/net/ipv4/conf/$end/forwarding",
    fixes: "echo 1 > /proc/sys/net/ipv4/conf/$end/forwarding",
  },
  {
    name: "no route back",
    pod: WEB,
    text: /Interface "veth\w+" lacks route 10.1.0.2\/32/,
    breaks: "ip route del 10.1.0.2",
    fixes: "ip route add 10.1.0.2 dev $end",
  },
  {
    name: "a forward chain drops it",
    pod: WEB,
    text: /"ip filter FORWARD" \(forward\) has policy drop/,
    breaks: "iptables-nft -P FORWARD DROP",
    fixes: "nft delete table ip filter",
  },
  {
    name: "the host has no default route",
    pod: WEB,
    text: /the host has no route to the outside for packets from 10.1.0.2/,
    breaks: "ip route del default",
    fixes: "ip route add default via 192.0.2.2",
  },
  {
    name: "the uplink has no carrier",
    pod: DB,
    text: /the uplink "out0" has no carrier/,
    command: /^ip -details link show out0$/m,
    // The kernel tells the other end a little later.
    breaks:
      "nsenter --net=$outside ip link set eth0 down; while ip link show out0 | grep -q 'state UP'; do :; done",
    fixes:
      "nsenter --net=$outside sh -c 'ip link set eth0 up; ip addr add 2001:db8:ff::2/64 dev eth0 nodad'; until ip link show out0 | grep -q 'state UP'; do :; done",
  },
  {
    name: "the masquerade is gone",
    pod: WEB,
    text: /The masquerade is missing: 10.1.0.2/,
    breaks:
      "nft list table inet cni_plugins_masquerade > $directory/saved; nft delete table inet cni_plugins_masquerade",
    fixes: "nft -f $directory/saved",
  },
  {
    name: "the next router is silent",
    pod: DB,
    text: /to 192.0.2.2 on "out0", where no host answers/,
    breaks:
      "nsenter --net=$outside ip -4 addr flush dev eth0; ip neigh flush dev out0",
    fixes: "nsenter --net=$outside ip addr add 192.0.2.2/24 dev eth0",
  },
];

/** The document. */
interface Shown {
  readonly ok: boolean;
  readonly probes: readonly ShownProbe[];
  readonly causes: readonly ShownCause[];
}

/** Probes a pod. */
async function probePod(
  scene: DoctorScene,
  pod: string,
  flags: { readonly to?: string; readonly from?: string } = {},
): Promise<Shown> {
  const { json, exitCode } = await scene.doctor({ pod, ...flags } as CniFlags);
  assertEquals(await validate(json, schema), []);
  const shown = json as Shown;
  assertEquals(exitCode, shown.ok ? 0 : 1);
  return shown;
}

/** Replaces what the scripts call by names. */
function fill(script: string, scene: DoctorScene, pod: string): string {
  const { hosts, other, outside } = scene;
  const netns = pod === WEB ? hosts.sandbox : other;
  const [{ link_index: index }] = JSON.parse(
    scene.ip("-j link show eth0", netns),
  );
  const links = JSON.parse(scene.ip("-j link"));
  const end =
    links.find(({ ifindex }: { ifindex: number }) => ifindex === index).ifname;
  return script.replaceAll("$end", end).replaceAll("$netns", netns.path)
    .replaceAll("$outside", outside.path)
    .replaceAll("$directory", hosts.directory);
}

rootTest("cni doctor --pod reports where a packet ends", NEEDS, async (t) => {
  using scene = await DoctorScene.create();
  for (const pod of [WEB, DB]) {
    assertEquals((await probePod(scene, pod)).causes, []);
  }
  for (const { name, pod, breaks, fixes, where, ...expected } of FAULTS) {
    await t.step(name, async () => {
      const netns = where?.(scene) ?? scene.hosts.host;
      const [script, undo] = [breaks, fixes]
        .map((text) => fill(text, scene, pod));
      scene.sh(script ?? "", netns);
      try {
        const { ok, causes } = await probePod(scene, pod);
        assertEquals(ok, false);
        const texts = causes.map(({ message }) => message).join("\n");
        assertMatch(texts, expected.text);
        const help = causes.map(({ fix, look }) =>
          `${fix ?? ""}\n${look ?? ""}`
        );
        assertMatch(help.join("\n"), expected.command ?? /./);
      } finally {
        scene.sh(undo ?? "", netns);
      }
    });
  }
  for (const pod of [WEB, DB]) {
    assertEquals((await probePod(scene, pod)).causes, []);
  }
  await t.step("a namespace without a cached attachment", async () => {
    const { json } = await scene.doctor({
      "pod": scene.other.path,
      "cache-dir": scene.proc,
    });
    const { probes, causes } = json as Shown;
    assertMatch(probes[0]?.from ?? "", / eth0$/);
    assertEquals(causes, []);
  });
  await t.step("the destination of --to must reply", async () => {
    for (
      const [to, isReached] of [
        ["192.0.2.2", true],
        ["192.0.2.2:81", false],
        ["2001:db8:ff::2", true],
        ["[2001:db8:ff::2]:81", false],
        ["192.0.2.77", false],
      ] as const
    ) {
      const { ok, probes } = await probePod(scene, WEB, { to });
      assertEquals(ok, isReached, to);
      const [{ destination, port } = {}] = probes;
      assertEquals(
        port === null || destination?.includes(":")
          ? `${destination}`
          : `${destination}:${port}`,
        to.replace(/^\[(.*)\].*/, "$1"),
      );
    }
    for (const to of ["web", "1.2.3.4:0", "1.2.3.4:70000", ":"]) {
      await assertRejects(
        () => probePod(scene, WEB, { to }),
        Error,
        "--to must be ADDRESS",
      );
    }
  });
  await t.step(
    "a sysctl of the uplink is not attributed to a bridge with a similar name",
    async () => {
      const [netns, id] = [scene.hosts.addNetns(), "0ut0ut0ut0ut0ut0"];
      scene.writeNetwork("30-out", [{
        type: "bridge",
        bridge: "out",
        isGateway: true,
        ipam: {
          ...scene.hosts.hostLocal("10.8.0.0/24"),
          routes: [{ dst: "0.0.0.0/0" }],
        },
      }]);
      await scene.attach("30-out", netns, id, "out");
      scene.sh("echo 0 > /proc/sys/net/ipv4/conf/out0/forwarding");
      const { causes } = await probePod(scene, "default/out");
      scene.sh("echo 1 > /proc/sys/net/ipv4/conf/out0/forwarding");
      await scene.detach("30-out", netns, id);
      await Deno.remove(`${scene.confDir}/30-out.conflist`);
      assertEquals(
        causes.map(({ message }) => message),
        ["net.ipv4.conf.out0.forwarding is 0"],
      );
    },
  );
  await t.step("the source of --from sends to the pod", async () => {
    for (const from of ["node", "outside", DB]) {
      const { ok, probes } = await probePod(scene, WEB, { from });
      assertEquals(ok, true, `${from} ${JSON.stringify(probes)}`);
      assertEquals(
        new Set(probes.map(({ to }) => to)),
        new Set([`${WEB} eth0`]),
      );
      const to = ":81";
      const asked = await probePod(scene, WEB, { from, to });
      assertEquals(asked.probes.map(({ port }) => port).includes(81), true);
    }
    await assertRejects(
      () => scene.doctor({ from: "node" }),
      Error,
      "need --pod",
    );
  });
  await t.step("nothing is left, and the text fits the width", async () => {
    scene.sh("iptables-nft -P FORWARD DROP");
    const { text } = await scene.doctor({ pod: WEB });
    scene.sh("nft delete table ip filter");
    const shown = typeof text === "string"
      ? text
      : text(chooseStyle(false, 80));
    assertMatch(shown, /^lost: the nftables chain "ip filter FORWARD"/m);
    assertMatch(shown, /^ {4}fix: {2}iptables -A FORWARD -s 10.1.0.0\/28/m);
    assertEquals(
      shown.split("\n").filter((line) =>
        line.length > 80 && !/^ {4}(fix|look):/.test(line)
      ),
      [],
    );
    for (const netns of [scene.hosts.host, scene.hosts.sandbox]) {
      assertEquals(
        scene.sh("nft list tables", netns).includes("cni_probe"),
        false,
      );
    }
    assertEquals(scene.ip("-br link").includes("cniprobe"), false);
  });
  await t.step("an unknown pod", () =>
    assertRejects(
      () => scene.doctor({ pod: "default/wbe" }),
      Error,
      'There is no pod "default/wbe"; did you mean "default/web"?',
    ).then(() => {}));
});

/** What a command could only fix by cutting off the node or other programs. */
const ADVISED: readonly (Fault & { readonly to?: string })[] = [
  {
    name: "the address of the uplink",
    pod: WEB,
    to: "192.0.2.1",
    text: /^the node itself has 192.0.2.1, on "out0"$/,
    breaks: "echo 1 > /proc/sys/net/ipv4/icmp_echo_ignore_all",
    fixes: "echo 0 > /proc/sys/net/ipv4/icmp_echo_ignore_all",
  },
  {
    name: "an address of the node on lo",
    pod: WEB,
    to: "192.0.2.50:81",
    text: /^the node itself has 192.0.2.50, on "lo"$/,
    breaks: "ip addr add 192.0.2.50/32 dev lo",
    fixes: "ip addr del 192.0.2.50/32 dev lo",
  },
  {
    name: "STP of a bridge with a cable",
    pod: DB,
    text: /^STP holds back "veth\w+", ports of "lan0"$/,
    breaks: "ip link add cable0 type veth peer name cable1; " +
      "ip link set cable0 up master lan0; ip link set cable1 up; " +
      "bridge link set dev $end state 1",
    fixes: "bridge link set dev $end state 3; ip link del cable0",
  },
];

rootTest("cni doctor --pod keeps the node connected", NEEDS, async (t) => {
  using scene = await DoctorScene.create();
  for (const { name, pod, to, text, breaks, fixes } of ADVISED) {
    await t.step(name, async () => {
      scene.sh(fill(breaks, scene, pod));
      const { causes } = await probePod(scene, pod, to ? { to } : {});
      scene.sh(fill(fixes, scene, pod));
      const cause = causes.find(({ message }) => text.test(message));
      assert(cause?.advice, JSON.stringify(causes));
      assertEquals(cause.fix, null);
    });
  }
});

rootTest(
  "cni doctor --pod sends each probe once for a pod with several networks",
  NEEDS,
  async () => {
    using scene = DoctorScene.bare();
    scene.writeMultus();
    const capabilityArgs = {
      portMappings: [
        { hostPort: 8080, containerPort: 80 },
        // The pod has no IPv6 address for it.
        { hostPort: 8081, containerPort: 80, hostIP: "::" },
      ],
    };
    const { hosts: { sandbox }, other } = scene;
    await scene.attach("00-multus", sandbox, "0123456789abcdef", "web", {
      capabilityArgs,
    });
    await scene.attach("00-multus", other, "fedcba9876543210", "db");
    const { ok, probes } = await probePod(scene, WEB);
    assertEquals(ok, true, JSON.stringify(probes));
    const sent = probes.map(({ milliseconds: _, ...probe }) =>
      JSON.stringify(probe)
    );
    assertEquals(sent.length, new Set(sent).size);
    const ends = probes.map(({ from, to }) => `${from} -> ${to}`);
    for (const ifName of ["eth0", "net1"]) {
      assertEquals(ends.includes(`${WEB} ${ifName} -> ${DB} ${ifName}`), true);
    }
    assertEquals(
      ends.filter((end) => end.includes("port 808")),
      [`outside -> port 8080 of the node, for ${WEB} eth0`],
    );
  },
);
