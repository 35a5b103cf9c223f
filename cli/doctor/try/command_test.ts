// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls
/** `cni doctor --try`: throw-away namespaces on each network. */
import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import type { Trial } from "./trial.ts";
import { chooseStyle } from "../../../base/command_line/style.ts";
import { inNetns } from "../../../ffi/netns.ts";
import {
  allOf,
  ignoreUnless,
  rootTest,
} from "../../../testing/capabilities.ts";
import { DoctorScene } from "../testing/scene.ts";
import { needsBin } from "../../../tests/_harness/executables.ts";
import schema from "./try.schema.json" with { type: "json" };
import { validate } from "../../../tests/_harness/json_schema.ts";
import { needsKind } from "../../../tests/_harness/on_master.ts";
import { ToolHost } from "../../../tests/_harness/tool_host.ts";
import {
  needsInetRules,
  needsRuleTools,
} from "../../../tests/_harness/rules.ts";

const NEEDS = allOf(needsRuleTools, needsInetRules);
const needsVlan = needsKind("vlan");
const hasPerl = ((): boolean => {
  try {
    Deno.statSync("/usr/bin/perl");
    return true;
  } catch {
    return false;
  }
})();

/** The document, in part. */
interface Tried {
  readonly ok: boolean;
  readonly networks: readonly Trial[];
}

/** Tries all networks, and shows the text at a width. */
async function tryAll(
  scene: DoctorScene,
): Promise<Tried & { readonly text: string; readonly exitCode: number }> {
  const resolvConf = `${scene.hosts.directory}/resolv.conf`;
  const output = await scene.doctor({ try: true }, { resolvConf });
  const { text, exitCode = 0 } = output;
  return {
    ...output.json as Tried,
    text: typeof text === "string" ? text : text(chooseStyle(false, 80)),
    exitCode,
  };
}

/** Returns the pairs that were tried and, if they failed, how. */
function pairs({ attempts }: Trial): string[] {
  return attempts.map(({ from, to, address, reached }) =>
    `${from}-${to} ${address.includes(":") ? 6 : 4}${reached ? "" : " lost"}`
  ).sort();
}

/** The state of host namespace, leases and cache. */
function stock({ hosts, cacheDir, sh }: DoctorScene): string {
  void sh;
  const list = (path: string): string[] =>
    [...Deno.readDirSync(path)].map(({ name }) => name)
      .filter((name) => !/^(lock|last_reserved|\.)/.test(name)).sort();
  return JSON.stringify([
    list(`${hosts.directory}/leases/pods`),
    list(`${hosts.directory}/leases/lan`),
    list(`${cacheDir}/results`),
  ]);
}

const PODS_4 = [
  "A-B 4",
  "A-gateway 4",
  "A-node 4",
  "A-outside 4",
  "B-A 4",
  "B-gateway 4",
  "B-node 4",
  "B-outside 4",
  "node-A 4",
  "node-B 4",
];
const PODS = [...PODS_4, ...PODS_4.map((one) => one.replace(/4$/, "6"))].sort();
const LAN = PODS_4.filter((one) => !one.includes("outside"));

rootTest("cni doctor --try reports each connection", NEEDS, async (t) => {
  using scene = await DoctorScene.create();
  Deno.writeTextFileSync(
    `${scene.hosts.directory}/resolv.conf`,
    "nameserver 127.0.0.53\n",
  );
  const before = stock(scene);
  const links = scene.ip("-j link");

  await t.step("every connection works, and nothing is left", async () => {
    const { ok, networks, text, exitCode } = await tryAll(scene);
    assertEquals(networks.map(({ failures }) => failures), [[], []]);
    assertEquals(networks.map(({ network }) => network), ["pods", "lan"]);
    assertEquals(networks.map(pairs), [PODS, LAN], text);
    assertEquals([ok, exitCode], [true, 0]);
    const { json } = await scene.doctor({ try: true });
    assertEquals(await validate(json, schema), []);
    assertMatch(
      text,
      /^pods \(10-pods.conflist\)\n {2}A is 10.1.0.\d+, fd00:1::/,
    );
    assertMatch(text, /\n {2}FROM +A +B +NODE +GATEWAY +OUTSIDE\n/);
    assertMatch(text, /\n\nAll 2 networks work$/);
    assertEquals(text.split("\n").filter((line) => line.length > 80), []);
    assertEquals(stock(scene), before);
    const names = (text: string): string[] =>
      JSON.parse(text).map(({ ifname }: { ifname: string }) => ifname);
    assertEquals(names(scene.ip("-j link")), names(links));
  });

  await t.step("as a diagram", async () => {
    const { text } = await scene.doctor({ try: true, svg: "-" }, {});
    assertMatch(`${text}`, /^<svg .*<\/svg>$/s);
    assertMatch(`${text}`, /class="ok"/);
  });

  await t.step({
    name: "forwarding that remains on for another interface",
    ignore: !hasPerl,
    fn: async () => {
      const { plugins } = scene.readNetwork("10-pods");
      const script = `#!/bin/sh
case $CNI_COMMAND in
ADD)
  nsenter --net=${scene.hosts.host.path} ip link add late0 type veth peer name late1 2>/dev/null
  exec perl -MJSON::PP -0777 -ne 'print encode_json(decode_json($_)->{prevResult})';;
VERSION) echo '{"cniVersion": "1.1.0", "supportedVersions": ["1.1.0"]}';;
esac
`;
      const { path } = scene.hosts;
      Deno.writeTextFileSync(`${path}/late`, script, { mode: 0o755 });
      scene.writeNetwork("10-pods", [...plugins, { type: "late" }]);
      scene.sh("echo 0 >/proc/sys/net/ipv4/ip_forward");
      const { networks: [pods] } = await tryAll(scene);
      scene.sh("ip link del late0; echo 1 >/proc/sys/net/ipv4/ip_forward");
      scene.writeNetwork("10-pods", plugins);
      assertEquals(
        pods?.stops.map(({ text }) => text),
        [
          "net.ipv4.ip_forward was 0 before ADD turned it on, and stays 1: " +
          "another interface appeared on the node during the test",
        ],
      );
    },
  });

  await t.step("a forward chain that drops", async () => {
    scene.sh("iptables-nft -P FORWARD DROP");
    const { networks, text, exitCode } = await tryAll(scene);
    scene.sh("nft delete table ip filter");
    assertEquals(exitCode, 1);
    const [pods] = networks;
    const lost = pods === undefined ? [] : pairs(pods)
      .filter((one) => one.endsWith("lost"));
    assertEquals(lost, [
      "A-B 4 lost",
      "A-outside 4 lost",
      "B-A 4 lost",
      "B-outside 4 lost",
    ]);
    assertMatch(text, /stopped at CNI0604: .*\(forward\) has\s+policy drop/);
    assertMatch(text, /fix: {2}iptables -A FORWARD -s 10.1.0.0\/28 -j ACCEPT/);
    assertMatch(text, /\n\npods.*: something failed$/);
  });

  await t.step("a rule that drops pings between containers", async () => {
    scene.sh(
      "nft 'table inet raw { chain pre { type filter hook prerouting priority -300; ip saddr 10.1.0.0/28 drop; }; }'",
    );
    const { networks, exitCode } = await tryAll(scene);
    scene.sh("nft delete table inet raw");
    assertEquals(exitCode, 1);
    const [stop] = networks[0]?.stops ?? [];
    assertMatch(
      stop?.text ?? "",
      /"inet raw pre" \(prerouting\) drops packets/,
    );
  });

  await t.step("a NetworkPolicy that drops on purpose", async () => {
    scene.sh(
      "iptables-nft -N KUBE-POD-FW-A; iptables-nft -A FORWARD -j KUBE-POD-FW-A; " +
        "iptables-nft -A KUBE-POD-FW-A -s 10.1.0.0/28 -d 192.0.2.2 -j DROP",
    );
    const { networks: [pods], text, exitCode } = await tryAll(scene);
    scene.sh("nft delete table ip filter");
    assertEquals(exitCode, 1);
    assertEquals(pods?.stops.map(({ at, fix }) => [at, fix]), [
      ["CNI0606", null],
    ]);
    assertMatch(
      text,
      /stopped at CNI0606: .*KUBE-POD-FW-A[^]*do: {3}a network policy drops this/,
    );
  });

  await t.step("a node that serves no port", async () => {
    scene.sh(
      "nft 'table inet fw { chain i { type filter hook input priority 0; policy drop; ct state established accept; meta l4proto { icmp, ipv6-icmp } accept; }; }'",
    );
    const { ok, text } = await tryAll(scene);
    scene.sh("nft delete table inet fw");
    assertEquals([ok, text.includes("stopped at")], [true, false], text);
  });

  await t.step("a rule that drops packets to one destination", async () => {
    scene.sh(
      "nft 'table inet raw { chain pre { type filter hook prerouting priority -300; ip saddr 10.1.0.0/28 ip daddr 192.0.2.2 drop; }; }'",
    );
    const { networks } = await tryAll(scene);
    scene.sh("nft delete table inet raw");
    const [pods] = networks;
    const lost = pods === undefined ? [] : pairs(pods)
      .filter((one) => one.endsWith("lost"));
    assertEquals(lost, ["A-outside 4 lost", "B-outside 4 lost"]);
    assertEquals(pods?.stops.map(({ at }) => at), ["CNI0606"]);
    assertMatch(
      pods?.stops[0]?.fix ?? "",
      /^nft delete rule inet raw pre handle \d+$/,
    );
  });

  await t.step("ADD that fails", async () => {
    const path = scene.writeNetwork("30-more", [{
      type: "macvlan",
      master: "out7",
      ipam: { type: "static", addresses: [{ address: "10.9.9.9/24" }] },
    }]);
    const { networks, text, exitCode } = await tryAll(scene);
    Deno.removeSync(path);
    assertEquals(exitCode, 1);
    assertEquals(networks[2]?.failures[0]?.command, "ADD");
    assertMatch(text, /ADD failed: .*failed to lookup master\s+"out7"/);
    assertEquals(stock(scene), before);
  });

  await t.step("a gateway that no route uses need not reply", async () => {
    const path = scene.writeNetwork("30-more", [{
      type: "macvlan",
      master: "out0",
      ipam: scene.hosts.hostLocal("10.9.9.0/24"),
    }]);
    const { networks: [, , more], exitCode } = await tryAll(scene);
    Deno.removeSync(path);
    assertEquals(more && pairs(more), ["A-B 4", "B-A 4"]);
    assertEquals(exitCode, 0);
  });

  const vlanOf = (): string =>
    scene.writeNetwork("30-more", [{
      type: "vlan",
      master: "out0",
      vlanId: 7,
      ipam: scene.hosts.hostLocal("10.9.8.0/24"),
    }]);

  await t.step({
    name: `a VLAN accepts one container${needsVlan.suffix}`,
    ignore: needsVlan.ignore,
    fn: async () => {
      const path = vlanOf();
      const { networks: [, , more], exitCode } = await tryAll(scene);
      Deno.removeSync(path);
      assertEquals(more?.failures, []);
      assertEquals([more?.addresses.length, exitCode], [1, 0]);
    },
  });

  await t.step("a VLAN that a container uses is skipped", async () => {
    const [netns, id] = [scene.hosts.addNetns(), "7777777777777777"];
    const ipam = scene.hosts.hostLocal("10.9.7.0/24");
    // Of another type, because the kernel may have no VLANs.
    const path = scene.writeNetwork("30-more", [{ type: "ptp", ipam }]);
    await scene.attach("30-more", netns, id, "seven");
    vlanOf();
    const { networks: [, , more], exitCode } = await tryAll(scene);
    scene.writeNetwork("30-more", [{ type: "ptp", ipam }]);
    await scene.detach("30-more", netns, id);
    Deno.removeSync(path);
    assertEquals(more?.skipped, "its VLAN is in use by default/seven eth0");
    assertEquals(exitCode, 0);
  });

  await t.step("a master in the container is missing", async () => {
    const path = scene.writeNetwork("30-more", [
      { type: "macvlan", master: "eth9", linkInContainer: true },
    ]);
    const { networks: [, , more], exitCode } = await tryAll(scene);
    Deno.removeSync(path);
    assertEquals(exitCode, 0);
    assertEquals(more?.skipped, "macvlan needs a master in the container");
  });

  await t.step("a network that moves a device is skipped", async () => {
    const path = scene.writeNetwork("30-more", [
      { type: "host-device", device: "out0" },
    ]);
    const { networks, exitCode } = await tryAll(scene);
    Deno.removeSync(path);
    assertEquals(exitCode, 0);
    assertMatch(networks[2]?.skipped ?? "", /host-device would take a link/);
  });

  await t.step({
    name: "the node's name server",
    ignore: !hasPerl,
    fn: async () => {
      Deno.writeTextFileSync(
        `${scene.hosts.directory}/resolv.conf`,
        "nameserver 192.0.2.2\n",
      );
      const silent = await tryAll(scene);
      const lost = silent.networks.flatMap(pairs)
        .filter((one) => one.includes("name"));
      assertEquals(lost, ["A-name 4 lost", "B-name 4 lost"]);
      // Answers each question with its own header, and the bit of answers.
      const script = "use IO::Socket::INET; $s=IO::Socket::INET->new(" +
        'LocalAddr=>"192.0.2.2",LocalPort=>53,Proto=>"udp") or die; $|=1; ' +
        'print "ready\\n"; while($s->recv($b,512)){substr($b,2,1)="\\x81"; ' +
        "$s->send($b)}";
      const server = inNetns(
        scene.outside,
        () =>
          new Deno.Command("perl", { args: ["-e", script], stdout: "piped" })
            .spawn(),
      );
      const reader = server.stdout.getReader();
      await reader.read();
      const { networks, text } = await tryAll(scene);
      server.kill("SIGKILL");
      await reader.cancel();
      await server.status;
      const found = networks.flatMap(pairs)
        .filter((one) => one.includes("name"));
      assertEquals(found, ["A-name 4", "B-name 4"], text);
    },
  });

  assertEquals(await scene.find(), []);
  assertEquals(stock(scene), before);
});

rootTest(
  "cni doctor --try detaches its containers if it fails after ADD",
  allOf(NEEDS, ignoreUnless(hasPerl, "needs perl")),
  async () => {
    using scene = await DoctorScene.create();
    const { hosts } = scene;
    const hostNetns = `${hosts.directory}/host`;
    const link = `ln -sfn ${hosts.host.path} ${hostNetns}`;
    scene.sh(link);
    // The host cannot be read between the last ADD and the first DEL.
    const script = `#!/bin/sh
case $CNI_COMMAND in
ADD)
  case $CNI_CONTAINERID in *-b) rm ${hostNetns};; esac
  exec perl -MJSON::PP -0777 -ne 'print encode_json(decode_json($_)->{prevResult})';;
DEL) ${link};;
VERSION) echo '{"cniVersion": "1.1.0", "supportedVersions": ["1.1.0"]}';;
esac
`;
    Deno.writeTextFileSync(`${hosts.path}/hide`, script, { mode: 0o755 });
    const { plugins } = scene.readNetwork("10-pods");
    scene.writeNetwork("10-pods", [...plugins, { type: "hide" }]);
    const before = stock(scene);
    const links = scene.ip("-br link");
    await assertRejects(
      () => scene.doctor({ try: true }, { hostNetns }),
      Error,
      "ENOENT",
    );
    assertEquals(stock(scene), before);
    assertEquals(scene.ip("-br link"), links);
  },
);

rootTest(
  "cni doctor --try runs as an executable",
  allOf(NEEDS, needsBin),
  async () => {
    await using host = await ToolHost.create();
    host.addNetwork("pods", [
      { type: "ptp", ipam: host.hostLocal("10.1.2.0/24") },
    ]);
    const { code, stdout, stderr } = await host.cni("doctor --try");
    assertEquals([code, stderr], [0, ""], stdout);
    assertMatch(stdout, /^pods \(.*\)\n {2}A is 10.1.2.\d+; B is 10.1.2.\d+\n/);
    assertMatch(stdout, /\n\nThe network works\n$/);
    const both = await host.cni("doctor --try --fix");
    assertEquals(both.code, 1);
    assertMatch(both.stderr, /use only one of --pod, --fix, --wait and --try/);
  },
);
