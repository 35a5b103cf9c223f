/**
 * The executables on a host without iptables, nft, ip and tc, and with a /run
 * that is read-only. Masquerading is tested with ptp and bridge.
 */

import { assertEquals, assertNotEquals } from "@std/assert";
import { actingRules } from "./_harness/acting_rules.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../testing/capabilities.ts";
import { execIn } from "../testing/exec_in.ts";
import { BIN, needsBin } from "./_harness/executables.ts";
import { runIn, stockOf } from "../testing/ip_json.ts";
import { hostLimits, WIDE } from "../plugins/bandwidth/testing/limited_pair.ts";
import {
  MultusHost,
  onHost,
  TWO_NETWORKS,
} from "../plugins/multus/testing/host.ts";
import type { Keys } from "./_harness/plugin_scene.ts";
import { type CallOutput, TestHosts } from "../testing/test_hosts.ts";
import {
  type BareHostOptions,
  withoutPrograms,
} from "./_harness/host_programs.ts";

const needs = allOf(
  needsBin,
  ignoreUnless(
    ["mount", "nft", "tc", "unshare"].every(hasCommand),
    "needs mount, nft, tc and unshare",
  ),
);

const HOSTS: Readonly<Record<string, BareHostOptions>> = {
  "without programs": {},
  "without programs, /run read-only": { readOnlyRun: true },
};

rootTest("withoutPrograms() hides the programs that it names", needs, () => {
  using hosts = TestHosts.create();
  const find = "command -v ip tc nft iptables ip6tables sysctl";
  const look = `${find}; touch /run/bare-host-test && rm /run/bare-host-test`;
  const run = (path: string): { code: number; stdout: string } =>
    execIn(hosts.host, {
      path,
      args: ["-c", look],
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
      stdin: "",
    });
  const usual = run("/bin/sh");
  assertEquals(usual.code, 0);
  assertNotEquals(usual.stdout, "");
  for (const options of Object.values(HOSTS)) {
    const script = withoutPrograms(hosts.directory, "/bin/sh", options);
    const { code, stdout } = run(script);
    assertEquals([code === 0, stdout], [!options.readOnlyRun, ""]);
  }
});

type PluginKeys = Keys & { readonly type: string };

function ptp(hosts: TestHosts): PluginKeys {
  const routes = [{ dst: "0.0.0.0/0" }, { dst: "::/0" }];
  const leases = hosts.hostLocal("10.1.2.0/24", "2001:db8:1::/64");
  return { type: "ptp", ipam: { ...leases, routes } };
}

/** Plugins in the order of ADD, by the name of the row. */
const ROWS: Readonly<
  Record<string, (hosts: TestHosts) => readonly PluginKeys[]>
> = {
  "bandwidth": (hosts) => [ptp(hosts), { type: "bandwidth", ...WIDE }],
  "sbr": (hosts) => [ptp(hosts), { type: "sbr" }],
  "host-local": (hosts) => [{ ...ptp(hosts), type: "host-local" }],
  "static": () => [{
    type: "static",
    ipam: { type: "static", addresses: [{ address: "10.1.2.9/24" }] },
  }],
  "loopback": () => [{ type: "loopback" }],
  "chain": (hosts) => [{
    type: "chain",
    plugins: [ptp(hosts), { type: "bandwidth", ...WIDE }, { type: "sbr" }],
  }],
};

/** All that attachments change. */
function stateOf(hosts: TestHosts): unknown {
  const { host } = hosts;
  const state = [stockOf(hosts), hostLimits(host), actingRules(host)];
  return [...state, hosts.leases()];
}

/** The executables on a bare host, called in the order of a runtime. */
class BareHost {
  readonly #hosts: TestHosts;
  readonly #plugins: readonly PluginKeys[];
  readonly #options: BareHostOptions;

  constructor(
    hosts: TestHosts,
    plugins: readonly PluginKeys[],
    options: BareHostOptions,
  ) {
    this.#hosts = hosts;
    this.#plugins = plugins;
    this.#options = options;
  }

  /** Runs ADD of all plugins; returns the last result. */
  add(): unknown {
    let prevResult: unknown;
    for (const plugin of this.#plugins) {
      prevResult = this.#succeed("ADD", plugin, { prevResult }).json;
    }
    return prevResult;
  }

  /** Runs another command of all plugins. */
  run(command: string, keys: Keys = {}): void {
    const plugins = command === "DEL"
      ? this.#plugins.toReversed()
      : this.#plugins;
    for (const plugin of plugins) this.#succeed(command, plugin, keys);
  }

  #succeed(command: string, plugin: PluginKeys, keys: Keys): CallOutput {
    const { directory } = this.#hosts;
    const program = `${BIN}/${plugin.type}`;
    const script = withoutPrograms(directory, program, this.#options);
    const config = { cniVersion: "1.1.0", name: "net1", ...plugin, ...keys };
    const ifName = plugin.type === "loopback" ? "lo" : "eth0";
    const options = { ifName, env: { CNI_PATH: BIN } };
    const output = this.#hosts.exec(script, command, config, options);
    const { exitCode, stdout, stderr } = output;
    assertEquals({ exitCode, stderr }, { exitCode: 0, stderr: "" }, stdout);
    return output;
  }
}

for (const [kind, options] of Object.entries(HOSTS)) {
  for (const [type, plugins] of Object.entries(ROWS)) {
    const name = `${type} works on a host ${kind}`;
    rootTest(name, needs, () => {
      using hosts = TestHosts.create();
      runIn(hosts.sandbox, "ip", "link", "set", "lo", "down");
      const before = stateOf(hosts);
      const bare = new BareHost(hosts, plugins(hosts), options);
      const mine = { containerID: "test-container", ifname: "eth0" };
      bare.run("STATUS");
      const prevResult = bare.add();
      const added = stateOf(hosts);
      if (type !== "static") assertNotEquals(added, before);
      bare.run("CHECK", { prevResult });
      bare.run("GC", { "cni.dev/valid-attachments": [mine] });
      assertEquals(stateOf(hosts), added);
      bare.run("DEL", { prevResult });
      assertEquals(stateOf(hosts), before);
      bare.run("DEL", { prevResult });
      bare.run("GC", { "cni.dev/valid-attachments": [] });
      assertEquals(stateOf(hosts), before);
      // GC alone releases what a DEL would.
      const again = { prevResult: bare.add() };
      bare.run("GC", { "cni.dev/valid-attachments": [] });
      assertEquals(hosts.leases(), []);
      bare.run("DEL", again);
      assertEquals(stateOf(hosts), before);
    });
  }

  Deno.test({
    ...onHost(`multus works on a host ${kind}`, needs),
    async fn(): Promise<void> {
      await using host = await MultusHost.start({ cniVersion: "1.1.0" });
      const pod = host.addPod("web", { networks: TWO_NETWORKS });
      const { directory } = host.hosts;
      const script = withoutPrograms(directory, `${BIN}/multus`, options);
      const command = [script];
      const mine = { containerID: pod.containerId, ifname: "eth0" };
      await host.succeed("STATUS", pod, { command });
      const { json: prevResult } = await host.succeed("ADD", pod, { command });
      assertEquals(host.interfaces(pod), ["eth0", "lo", "net1", "net2"]);
      const keys = { prevResult };
      await host.succeed("CHECK", pod, { command, keys });
      const valid = { "cni.dev/valid-attachments": [mine] };
      await host.succeed("GC", pod, { command, keys: valid });
      await host.succeed("CHECK", pod, { command, keys });
      for (const _ of ["DEL", "DEL again"]) {
        await host.succeed("DEL", pod, { command, keys });
        assertEquals(host.remains(), []);
      }
      await host.succeed("ADD", pod, { command });
      const none = { "cni.dev/valid-attachments": [] };
      await host.succeed("GC", pod, { command, keys: none });
      await host.succeed("DEL", pod, { command });
      assertEquals(host.remains(), []);
    },
  });
}

/** So many that host-local would write an index of them to /run. */
const MANY_LEASES = 1000;

rootTest("host-local keeps many leases if /run is read-only", needs, () => {
  using hosts = TestHosts.create();
  const leases = `${hosts.directory}/leases/net1`;
  Deno.mkdirSync(leases, { recursive: true });
  for (let i = 0; i < MANY_LEASES; i++) {
    const address = `10.9.${Math.floor(i / 250)}.${2 + i % 250}`;
    Deno.writeTextFileSync(`${leases}/${address}`, `pod${i}\r\neth0`);
  }
  const before = hosts.leases();
  const ipam = hosts.hostLocal("10.9.0.0/16");
  const plugins = [{ type: "host-local", ipam }];
  const bare = new BareHost(hosts, plugins, { readOnlyRun: true });
  const prevResult = bare.add();
  assertEquals(hosts.leases().length, before.length + 1);
  bare.run("CHECK", { prevResult });
  bare.run("DEL", { prevResult });
  bare.run("DEL");
  assertEquals(hosts.leases(), before);
});
