/** `cni doctor --pod`: where the packets of a container end. */
import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { STEPS, type Way } from "./walk.ts";
import { allOf, rootTest } from "../../../testing/capabilities.ts";
import { chooseStyle } from "../../../base/command_line/style.ts";
import { DoctorScene } from "../testing/scene.ts";
import {
  needsInetRules,
  needsRuleTools,
} from "../../../tests/_harness/rules.ts";

const NEEDS = allOf(needsRuleTools, needsInetRules);
const WEB = "default/web", DB = "default/db";

/** A fault on the way of a container's first address. */
interface Fault {
  readonly name: string;
  readonly pod: string;
  /** The step at which the packet ends. */
  readonly endsAt: string;
  readonly text: RegExp;
  readonly command?: RegExp;
  /** Shell scripts; $end is the host's end of the container's veth pair. */
  readonly breaks: string;
  readonly fixes: string;
  readonly where?: (scene: DoctorScene) => DoctorScene["other"];
  /** Shorter where an answer is not expected; what comes before it needs none. */
  readonly timeoutMs?: number;
}

const inWeb = ({ hosts }: DoctorScene): DoctorScene["other"] => hosts.sandbox;
const inDb = ({ other }: DoctorScene): DoctorScene["other"] => other;
const inOutside = ({ outside }: DoctorScene): DoctorScene["other"] => outside;
const SILENT_MS = 50;
const FORWARDING = "/proc/sys/net/ipv4/ip_forward";

const FAULTS: readonly Fault[] = [
  {
    name: "the interface is down",
    pod: DB,
    endsAt: "interface",
    text: /"eth0" is down/,
    breaks: "ip link set eth0 down",
    fixes: "ip link set eth0 up; ip route add default via 10.2.0.1",
    where: inDb,
  },
  {
    name: "the address is gone",
    pod: DB,
    endsAt: "address",
    text: /"eth0" does not have 10.2.0.2/,
    breaks: "ip addr del 10.2.0.2/24 dev eth0",
    fixes:
      "ip addr add 10.2.0.2/24 dev eth0; ip route add default via 10.2.0.1",
    where: inDb,
  },
  {
    name: "the host's end is down",
    pod: DB,
    endsAt: "host-end",
    text: /"veth\w+", the host's end of "eth0", is down/,
    breaks: "ip link set $end down",
    fixes: "ip link set $end up",
  },
  {
    name: "the host's end is not on its bridge",
    pod: DB,
    endsAt: "bridge",
    text: /is not a port of a bridge, instead of "lan0"/,
    breaks: "ip link set $end nomaster",
    fixes: "ip link set $end master lan0",
  },
  {
    name: "the bridge is down",
    pod: DB,
    endsAt: "bridge",
    text: /the bridge "lan0" is down/,
    breaks: "ip link set lan0 down",
    fixes: "ip link set lan0 up",
  },
  {
    name: "a burst that is smaller than a packet",
    pod: WEB,
    endsAt: "rate-limit",
    text: /has a burst of \d+ bytes: larger packets never pass/,
    breaks:
      "tc qdisc replace dev $end root handle 1: tbf rate 1mbit burst 200 latency 25ms",
    fixes:
      "tc qdisc replace dev $end root handle 1: tbf rate 1gbit burst 1000000 latency 25ms",
  },
  {
    name: "the route is gone",
    pod: WEB,
    endsAt: "route",
    text: /no route to the outside from 10.1.0.2/,
    breaks: "ip route del default",
    fixes: "ip route add default via 10.1.0.1",
    where: inWeb,
  },
  {
    name: "the gateway's address is gone",
    pod: DB,
    endsAt: "gateway",
    text: /the host does not have the gateway 10.2.0.1/,
    breaks: "ip addr del 10.2.0.1/24 dev lan0",
    fixes: "ip addr add 10.2.0.1/24 dev lan0",
  },
  {
    name: "the gateway is silent",
    pod: DB,
    endsAt: "gateway",
    text: /the gateway 10.2.0.1 does not tell its MAC on "eth0"/,
    breaks:
      "nft 'add table bridge doctor { chain c { type filter hook input priority 0; policy drop; }; }'; nsenter --net=$netns ip neigh flush all",
    fixes: "nft delete table bridge doctor; ip neigh flush all",
    timeoutMs: SILENT_MS,
  },
  {
    name: "the bridge does not answer ARP",
    pod: DB,
    endsAt: "arp",
    text: /ARP is off on "lan0", so that the node does not answer for its/,
    breaks: "ip link set lan0 arp off",
    fixes: "ip link set lan0 arp on",
  },
  {
    name: "the host does not forward",
    pod: WEB,
    endsAt: "forwarding",
    text: /net.ipv4.ip_forward is 0/,
    breaks: `echo 0 > ${FORWARDING}`,
    fixes: `echo 1 > ${FORWARDING}`,
  },
  {
    name: "the host does not forward from one link",
    pod: WEB,
    endsAt: "forwarding",
    text: /net.ipv4.conf.veth\w+.forwarding is 0/,
    breaks: "echo 0 > /proc/sys/net/ipv4/conf/$end/forwarding",
    fixes: "echo 1 > /proc/sys/net/ipv4/conf/$end/forwarding",
  },
  {
    name: "no route back",
    pod: WEB,
    endsAt: "return-route",
    text: /the route back to 10.1.0.2 is by "out0" instead of "veth/,
    breaks: "ip route del 10.1.0.2",
    fixes: "ip route add 10.1.0.2 dev $end",
    timeoutMs: SILENT_MS,
  },
  {
    name: "a forward chain drops it",
    pod: WEB,
    endsAt: "forward-rules",
    text:
      /"ip filter FORWARD" has policy drop, and no rule accepts 10.1.0.0\/28/,
    breaks: "iptables-nft -P FORWARD DROP",
    fixes: "nft delete table ip filter",
  },
  {
    name: "the host has no default route",
    pod: WEB,
    endsAt: "uplink",
    text: /the host has no route to the outside for packets from 10.1.0.2/,
    breaks: "ip route del default",
    fixes: "ip route add default via 192.0.2.2",
  },
  {
    name: "the uplink has no carrier",
    pod: DB,
    endsAt: "uplink",
    text: /the uplink "out0" is without carrier/,
    command: /^ip -details link show out0$/,
    // The kernel tells the other end a little later.
    breaks:
      "nsenter --net=$outside ip link set eth0 down; while ip link show out0 | grep -q 'state UP'; do :; done",
    fixes:
      "nsenter --net=$outside sh -c 'ip link set eth0 up; ip addr add 2001:db8:ff::2/64 dev eth0 nodad'; until ip link show out0 | grep -q 'state UP'; do :; done",
  },
  {
    name: "the masquerade is gone",
    pod: WEB,
    endsAt: "masquerade",
    text: /The masquerade is missing: 10.1.0.2/,
    breaks:
      "nft list table inet cni_plugins_masquerade > $directory/saved; nft delete table inet cni_plugins_masquerade",
    fixes: "nft -f $directory/saved",
  },
  {
    name: "the next router is silent",
    pod: DB,
    endsAt: "uplink-gateway",
    text: /the gateway 192.0.2.2 does not tell its MAC on "out0"/,
    breaks: "ip -4 addr flush dev eth0",
    fixes: "ip addr add 192.0.2.2/24 dev eth0",
    where: inOutside,
    timeoutMs: 1000,
  },
];

/** A way in JSON. */
type ShownWay = Omit<Way, "endsAt"> & { readonly endsAt: string | null };

/** Goes the way of a pod's first address. */
async function goFirst(
  scene: DoctorScene,
  pod: string,
  timeoutMs?: number,
): Promise<ShownWay> {
  const { json, exitCode } = await scene.doctor({ pod }, { timeoutMs });
  const { ok, ways } = json as { ok: boolean; ways: ShownWay[] };
  assertEquals(exitCode, ok ? 0 : 1);
  return ways[0] as ShownWay;
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

rootTest("cni doctor --pod says where a packet ends", NEEDS, async (t) => {
  using scene = await DoctorScene.create();
  for (const pod of [WEB, DB]) {
    assertEquals((await goFirst(scene, pod)).endsAt, null);
  }
  for (const { name, pod, breaks, fixes, where, ...expected } of FAULTS) {
    await t.step(name, async () => {
      const netns = where?.(scene) ?? scene.hosts.host;
      const [script, undo] = [breaks, fixes]
        .map((text) => fill(text, scene, pod));
      scene.sh(script ?? "", netns);
      try {
        const way = await goFirst(scene, pod, expected.timeoutMs);
        const last = way.steps.at(-1);
        assertEquals(way.endsAt, expected.endsAt, JSON.stringify(way));
        assertMatch(last?.text ?? "", expected.text);
        assertMatch(last?.command ?? "", expected.command ?? /./);
      } finally {
        scene.sh(undo ?? "", netns);
      }
    });
  }
  for (const pod of [WEB, DB]) {
    assertEquals((await goFirst(scene, pod)).endsAt, null);
  }
  await t.step("a namespace that no runtime has in its cache", async () => {
    const { json } = await scene.doctor({
      "pod": scene.other.path,
      "cache-dir": scene.proc,
    });
    const { ways } = json as { ways: ShownWay[] };
    assertEquals(ways.map((way) => way.from), ["eth0 10.2.0.2"]);
    assertEquals(ways[0]?.endsAt, null);
  });
  await t.step(
    "an uplink without a gateway has no router that answers",
    async () => {
      for (
        const [route, says] of [
          ["via 192.0.2.2", / leaves this node, and the next router answers$/m],
          ["dev out0", / leaves this node$/m],
        ] as const
      ) {
        scene.sh(`ip route replace default ${route}`);
        const { text } = await scene.doctor({ pod: WEB });
        const shown = typeof text === "string"
          ? text
          : text(chooseStyle(false));
        assertMatch(shown, says);
      }
      scene.sh("ip route replace default via 192.0.2.2");
    },
  );
  await t.step("IPv6 passes a link whose own forwarding is off", async () => {
    const parameter = fill(
      "/proc/sys/net/ipv6/conf/$end/forwarding",
      scene,
      WEB,
    );
    scene.sh(`echo 0 > ${parameter}`);
    const { json } = await scene.doctor({ pod: WEB });
    const { ways } = json as { ways: ShownWay[] };
    const ends = ways.map(({ from, endsAt }) => [from.includes(":"), endsAt]);
    assertEquals(ends, [[false, null], [true, null]]);
    scene.sh(`echo 1 > ${parameter}`);
  });
  await t.step("an MTU that differs from the other end's", async () => {
    scene.sh("ip link set eth0 mtu 1300", scene.other);
    const { steps } = await goFirst(scene, DB);
    assertEquals(
      steps.find(({ step }) => step === "host-end")?.command,
      `nsenter --net=${scene.other.path} ip link set eth0 mtu 1500`,
    );
    scene.sh("ip link set eth0 mtu 1500", scene.other);
  });
  for (
    const [step, pod, where] of [
      ["gateway", WEB, scene.hosts.sandbox],
      ["uplink-gateway", DB, scene.hosts.host],
    ] as const
  ) {
    await t.step(`rules that refuse the ping of ${step}`, async () => {
      scene.sh(
        "nft 'add table ip own; " +
          "add chain ip own out { type filter hook output priority 0; }; " +
          "add rule ip own out ip protocol icmp drop'",
        where,
      );
      try {
        const way = await goFirst(scene, pod);
        const made = way.steps.find((one) => one.step === step);
        assertEquals(made?.state, "doubt", JSON.stringify(way));
        assertMatch(made?.text ?? "", /^firewall rules refuse pings to /);
        assertMatch(made?.command ?? "", /nft list ruleset$/);
      } finally {
        scene.sh("nft delete table ip own", where);
      }
    });
  }
  await t.step("an unknown pod", () =>
    assertRejects(
      () => scene.doctor({ pod: "default/wbe" }),
      Error,
      'There is no pod "default/wbe"; did you mean "default/web"?',
    ).then(() => {}));
});

Deno.test("docs/doctor.md describes every step, and no other", () => {
  const page = Deno.readTextFileSync("docs/doctor.md");
  const rows = page.matchAll(/^\| `([\w-]+)` +\|(?:[^|]*\|){2}$/gm);
  const names = [...rows].map(([, name]) => name);
  assertEquals(names, STEPS.map(({ name }) => name));
});
