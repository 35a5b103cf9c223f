/**
 * `cni repair` and `cni daemon --repair`, with the executables, on nodes whose
 * containers lose rules, routes, addresses, ports of bridges and forwarding to other
 * programs.
 */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { allOf, isExecutable, rootTest } from "../testing/capabilities.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { eventually } from "./_harness/eventually.ts";
import { needsBin } from "./_harness/executables.ts";
import { NodeDaemon } from "./_harness/node_daemon.ts";
import { needsInetRules, needsRuleTools } from "./_harness/rules.ts";
import { eachRow } from "./_harness/table.ts";
import { ToolHost } from "./_harness/tool_host.ts";

const needsAll = allOf(needsBin, needsRuleTools, needsInetRules);

/** How many containers there are; more with `CNI_REPAIR=100`. */
const CONTAINERS = Number(Deno.env.get("CNI_REPAIR") ?? 6);

const NETWORKD = "/lib/systemd/systemd-networkd";

/**
 * Has systemd-networkd configure all veths, until it has taken them out of the
 * bridge. It waits for udev unless /sys is read-only.
 */
const RUN_NETWORKD = `unshare --mount sh -ec '
  mount -t tmpfs none /run
  mount --bind /sys /sys; mount -o remount,bind,ro /sys
  mkdir -p /run/systemd/network /run/systemd/netif
  for name in links leases lldp; do mkdir /run/systemd/netif/$name; done
  chown -R systemd-network /run/systemd/netif
  printf "[Match]\nName=veth*\n[Network]\nLinkLocalAddressing=no\n" \
    > /run/systemd/network/50.network
  timeout 30 ${NETWORKD} 2>/dev/null & networkd=$!
  while ip -o link show master br0 | grep -q veth; do
    kill -0 $networkd
    sleep 0.1
  done
  kill $networkd; wait $networkd || true'`;

/** Has sysctl apply a file, and none of this machine's. */
const RUN_SYSCTL = `unshare --mount sh -ec '
  for directory in /etc /run /usr/local/lib /usr/lib; do
    mount -t tmpfs none $directory/sysctl.d 2>/dev/null || true
  done
  mount --bind /dev/null /etc/sysctl.conf 2>/dev/null || true
  printf "net.ipv4.conf.*.route_localnet=0\nnet.ipv4.ip_forward=0\n" \
    > /etc/sysctl.d/50.conf
  sysctl --quiet --system'`;

/** What other programs do to a node with the bridge `br0`, and what CHECK then says. */
const LOSSES: readonly [name: string, script: string, text: string][] = [
  ["nft flush ruleset", "nft flush ruleset", "masquerade"],
  ["iptables -F -t nat", "iptables -t nat -F", "masquerade"],
  [
    "the bridge's address is removed, as systemd-networkd does",
    "ip addr flush dev br0",
    "lacks address 10.1.0.1/16",
  ],
  [
    "ports leave the bridge",
    "for p in $(ip -o link show master br0 | grep -o 'veth[0-9a-f]*'); do ip link set $p nomaster; done",
    "is not a port",
  ],
  ...isExecutable(NETWORKD)
    ? [[
      "systemd-networkd configures the ports of the bridge",
      RUN_NETWORKD,
      "is not a port",
    ] as [string, string, string]]
    : [],
  ["sysctl --system", RUN_SYSCTL, "forwarding is off"],
  ["the bridge is deleted", "ip link del br0", '"br0" no longer exists'],
];

/** A node with containers on a bridge, each with a host port. */
class Scene implements AsyncDisposable {
  readonly host: ToolHost;

  private constructor(host: ToolHost) {
    this.host = host;
  }

  static async start(): Promise<Scene> {
    const scene = new Scene(await ToolHost.create());
    const { host } = scene;
    await scene.host.sh("ip link set lo up");
    host.addNetwork("pods", [
      {
        type: "bridge",
        bridge: "br0",
        isDefaultGateway: true,
        ipMasq: true,
        ipam: host.hostLocal("10.1.0.0/16"),
      },
      { type: "portmap", capabilities: { portMappings: true } },
      { type: "firewall", backend: "nftables" },
    ]);
    for (let number = 1; number <= CONTAINERS; number++) {
      host.env["CAP_ARGS"] = JSON.stringify({
        portMappings: [{
          hostPort: 8000 + number,
          containerPort: 80,
          protocol: "tcp",
        }],
      });
      await scene.host.succeed(`netns add c${number}`);
      await scene.host.succeed(`add pods c${number}`);
    }
    delete host.env["CAP_ARGS"];
    return scene;
  }

  /** All rules of the node, in any order. */
  async rules(): Promise<string[]> {
    const text = await this.host.sh("nft -s list ruleset 2>/dev/null");
    // What attachments share names the one that came first.
    return text.replaceAll(/ comment "[^"]*"/g, "").split("\n").toSorted();
  }

  /** Reports whether the tool finds nothing that is missing. */
  async isWhole(): Promise<boolean> {
    return (await this.host.cni("repair --all --dry-run")).code === 0;
  }

  /** Asserts that all containers pass CHECK. */
  async assertWhole(): Promise<void> {
    for (let number = 1; number <= CONTAINERS; number++) {
      await this.host.succeed(`check pods c${number} --no-daemon`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]();
  }
}

rootTest(
  "cni repair restores what other programs removed",
  needsAll,
  async (t) => {
    await using scene = await Scene.start();
    const { host } = scene;
    const rules = await scene.rules();
    await eachRow(t, LOSSES, async ([, script, text]) => {
      await scene.host.sh(script);
      const looked = await host.cni("repair --all --dry-run");
      assertEquals(looked.code, 1);
      assertStringIncludes(looked.stdout, text);
      const { code, stdout, stderr } = await host.cni("repair --all");
      assertEquals(code, 0, stdout + stderr);
      assertStringIncludes(stdout, text);
      assertMatch(
        stderr,
        new RegExp(`Repaired [1-9]\\d* of ${CONTAINERS} attachments`),
      );
      assertEquals(await scene.rules(), rules);
      await scene.assertWhole();
    });
    await t.step("nothing is missing", async () => {
      const { code, stdout, stderr } = await host.cni("repair --all");
      assertEquals([code, stdout], [0, ""]);
      assertMatch(stderr, /Repaired 0 of/);
    });
    await t.step("with plugins in separate processes", async () => {
      await scene.host.sh("nft flush ruleset");
      host.env["CNI_NO_INPROCESS"] = "1";
      await scene.host.succeed("repair --all");
      delete host.env["CNI_NO_INPROCESS"];
      assertEquals(await scene.rules(), rules);
    });
    await t.step("one container", async () => {
      await scene.host.sh("nft flush ruleset");
      const { stdout } = await host.cni("repair c1 --json");
      const [row, ...others] = JSON.parse(stdout);
      assertEquals(others, []);
      assertEquals([row.network, row.ifname, row.remaining], [
        "pods",
        "eth0",
        [],
      ]);
      const { code } = await host.cni("repair --all --dry-run");
      assertEquals(code, 1);
      await scene.host.succeed("repair --all");
    });
    await t.step("an interface in a container", async () => {
      await scene.host.sh("ip -n c1 addr flush dev eth0");
      const { code, stdout } = await host.cni("repair c1");
      assertEquals(code, 1);
      assertMatch(stdout, /^kept .* lacks address/m);
      await scene.host.succeed("repair c1 --sandbox");
      await scene.assertWhole();
    });
    await t.step("a deleted interface", async () => {
      await scene.host.sh("ip -n c2 link del eth0");
      const { code, stdout } = await host.cni("repair c2");
      assertEquals(code, 1);
      assertStringIncludes(stdout, "was deleted: restart the container");
    });
    await t.step("wrong command lines", async () => {
      const lines: [line: string, text: string][] = [
        ["repair", "name containers, or use --all"],
        ["repair c1 --all", "--all repairs all containers; do not name any"],
        ["repair nobody", "There is no pod, container or network namespace"],
      ];
      for (const [line, text] of lines) {
        const { code, stderr } = await host.cni(line);
        assertEquals(code === 0, false, line);
        assertStringIncludes(stderr, text);
      }
    });
  },
);

rootTest("cni repair names plugins that cannot repair", needsAll, async () => {
  await using host = await ToolHost.create();
  host.addPlugin(
    "foreign",
    `case $CNI_COMMAND in
    ADD) cat >/dev/null; echo '{"cniVersion":"1.1.0"}' ;;
    CHECK|GC|STATUS) exit 0 ;;
    *) echo "$CNI_COMMAND" >> /run/foreign ;;
    esac`,
  );
  host.addNetwork("pods", [{ type: "foreign" }]);
  await host.cni("netns add c1");
  const added = await host.cni("add pods c1");
  assertEquals(added.code, 0, added.stderr);
  const { code, stdout, stderr } = await host.cni("repair --all");
  assertEquals([code, stdout], [0, ""]);
  assertStringIncludes(stderr, "The plugin foreign does not support REPAIR");
  const others = await host.run(["cat", "/run/foreign"]);
  assertEquals(others.stdout, "VERSION\n");
});

rootTest("cni daemon --repair restores lost rules", needsAll, async (t) => {
  await using scene = await Scene.start();
  const rules = await scene.rules();
  using hosts = TestHosts.create();
  await using daemon = await NodeDaemon.start(hosts, {
    wrapper: scene.host.enter,
    socketDir: "/run/cni",
    args: ["--repair"],
    env: { CNI_PATH: scene.host.path },
  });
  const repaired = (): Promise<number> =>
    daemon.metric("cni_daemon_repairs_total");
  await eachRow(t, LOSSES, async ([, script]) => {
    const before = await repaired();
    await scene.host.sh(script);
    await eventually(
      "all are repaired",
      async () => await repaired() > before && await scene.isWhole(),
    );
    assertEquals(await scene.rules(), rules);
    await scene.assertWhole();
    assertEquals(await daemon.metric("cni_daemon_repairs_failed"), 0);
  });
  await t.step("after DEL of another network, and a failed DEL", async () => {
    const { host } = scene;
    host.addNetwork("second", [
      { type: "ptp", ipam: host.hostLocal("10.2.0.0/16") },
    ]);
    await scene.host.succeed("add second c1 --ifname eth1");
    await scene.host.succeed("del second c1 --ifname eth1");
    const [{ containerID }] = JSON.parse(
      await scene.host.succeed("repair c1 --json"),
    );
    const failed = await host.run([
      ...["env", "CNI_COMMAND=DEL", `CNI_CONTAINERID=${containerID}`],
      ...[
        "CNI_IFNAME=eth0",
        "CNI_NETNS=/run/netns/c1",
        `CNI_PATH=${host.path}`,
      ],
      ...["sh", "-c", `echo '{"name":"pods","cniVersion":"9.8.7"}' | "$0"`],
      `${Deno.env.get("CNI_BIN")}/bridge`,
    ]);
    assertEquals(failed.code, 1);
    const before = await repaired();
    await scene.host.sh("nft flush ruleset");
    // CHECK of a container keeps the daemon from it: not before its round.
    await eventually(
      "all are repaired",
      async () => await repaired() > before && await scene.isWhole(),
    );
    assertEquals(await scene.rules(), rules);
  });
  await t.step("and logs the repair", async () => {
    assertMatch(
      daemon.log,
      /msg="Repaired containers that had lost something"/,
    );
    const { body } = await daemon.ask("/state");
    assertEquals(JSON.parse(body).repairs.remaining, []);
  });
});
