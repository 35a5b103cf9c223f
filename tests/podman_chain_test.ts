/**
 * The plugins of the reference set by their executables, in the lists that
 * podman, flannel and others write, and a pod of multus: each as processes,
 * in one process by `chain`, and by a node daemon.
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { makeChain } from "../cli/node/chain_form.ts";
import { unlessMissing } from "../base/files/io.ts";
import type { JsonObject } from "../base/json/json.ts";
import { decodePluginConf, decodePluginConfs } from "../libcni/conf.ts";
import { buildRequest } from "../libcni/operation.ts";
import {
  allOf,
  type Needs,
  needsRoot,
  rootTest,
} from "../testing/capabilities.ts";
import { ipJson, linkNames, runIn } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { actingRules } from "./_harness/acting_rules.ts";
import { DhcpScene, needsDnsmasq } from "../ipam/dhcp/testing.ts";
import { needsBin, startPlugin } from "./_harness/executables.ts";
import { flannelConfig, SUBNET_ENV } from "../plugins/flannel/testing.ts";
import { MultusHost } from "../plugins/multus/testing/host.ts";
import { needsLinks } from "./_harness/link_kinds.ts";
import { NodeDaemon } from "./_harness/node_daemon.ts";
import { needsInetRules } from "./_harness/rules.ts";
import { eachRow } from "./_harness/table.ts";

type PluginObject = JsonObject & { readonly type: string };

/** The ways to run the plugins of a list. */
const WAYS = ["processes", "chain", "daemon"] as const;
type Way = typeof WAYS[number];

const NETWORK = { name: "net1", cniVersion: "1.0.0" };

/** The ports that the runtime publishes. */
const OFFER = {
  portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
};

/** A list of plugins, and what its ADD leaves. */
interface Row {
  readonly plugins: (hosts: TestHosts) => readonly PluginObject[];
  /** Throws unless the container is attached. */
  readonly assertAdded?: (hosts: TestHosts) => void;
  readonly needs?: Needs;
}

function ipamOf(hosts: TestHosts, keys: JsonObject = {}): JsonObject {
  const { type, dataDir, ranges } = hosts.hostLocal("10.88.0.0/16");
  return { type, dataDir, ranges, ...keys };
}

function tuning(hosts: TestHosts): PluginObject {
  const sysctl = { "net.ipv4.conf.eth0.log_martians": "1" };
  return { type: "tuning", sysctl, dataDir: `${hosts.directory}/tuning` };
}

const PORTMAP = { type: "portmap", capabilities: { portMappings: true } };

const ROWS: Readonly<Record<string, Row>> = {
  "podman's bridge": {
    plugins: (hosts) => [
      {
        type: "bridge",
        bridge: "cni-podman0",
        isGateway: true,
        ipMasq: true,
        hairpinMode: true,
        ipam: ipamOf(hosts, { routes: [{ dst: "0.0.0.0/0" }] }),
      },
      PORTMAP,
      { type: "firewall", backend: "" },
      tuning(hosts),
    ],
    assertAdded: ({ host }) => {
      const rules = actingRules(host).join("\n");
      assertMatch(rules, /8080/);
      assertMatch(rules, /10\.88\.0\.2/);
    },
    needs: needsInetRules,
  },
  "flannel's list": {
    plugins: (hosts) => [
      flannelConfig(hosts) as PluginObject,
      PORTMAP,
    ],
    assertAdded: ({ host }) => assert(linkNames(host).includes("cni0")),
    needs: needsInetRules,
  },
  "macvlan": {
    plugins: (hosts) => [
      { type: "macvlan", master: "up0", ipam: ipamOf(hosts) },
      tuning(hosts),
    ],
  },
  "ipvlan": {
    plugins: (hosts) => [
      { type: "ipvlan", master: "up0", ipam: ipamOf(hosts) },
    ],
    needs: needsLinks("ipvlan"),
  },
  "vlan": {
    plugins: (hosts) => [
      { type: "vlan", master: "up0", vlanId: 5, ipam: ipamOf(hosts) },
    ],
    needs: needsLinks("vlan"),
  },
  "dummy": {
    plugins: (hosts) => [{ type: "dummy", ipam: ipamOf(hosts) }],
    needs: needsLinks("dummy"),
  },
  "ptp in a vrf": {
    plugins: (hosts) => [
      { type: "ptp", ipam: ipamOf(hosts) },
      { type: "vrf", vrfname: "blue" },
    ],
    needs: needsLinks("vrf"),
  },
  "tap": { plugins: (hosts) => [{ type: "tap", ipam: ipamOf(hosts) }] },
  "host-device": {
    plugins: (hosts) => [
      { type: "host-device", device: "vf0", ipam: ipamOf(hosts) },
    ],
  },
};

/** Calls the executables of a list, one way or another. */
class Runtime {
  readonly #hosts: TestHosts;
  readonly #plugins: readonly PluginObject[];
  readonly #daemon: NodeDaemon | undefined;
  #prevResult: JsonObject | undefined;

  constructor(
    hosts: TestHosts,
    plugins: readonly PluginObject[],
    daemon: NodeDaemon | undefined,
  ) {
    [this.#hosts, this.#plugins, this.#daemon] = [hosts, plugins, daemon];
  }

  /** Runs a command of all plugins, each of which must succeed. */
  async run(command: "ADD" | "CHECK" | "DEL"): Promise<void> {
    const plugins = command === "DEL"
      ? this.#plugins.toReversed()
      : this.#plugins;
    for (const plugin of plugins) {
      const { type } = plugin;
      const config = this.#requestFor(plugin);
      const { code, stdout, stderr } = await (this.#daemon === undefined
        ? startPlugin(this.#hosts, { type, command, config })
        : this.#daemon.call(type, command, { config })).output;
      assertEquals([code, stderr], [0, ""], `${command} ${type}: ${stdout}`);
      if (command === "ADD") {
        this.#prevResult = JSON.parse(stdout);
      }
    }
  }

  #requestFor(plugin: PluginObject): JsonObject {
    const extras = { prevResult: this.#prevResult, capabilityArgs: OFFER };
    const bytes = buildRequest(NETWORK, decodePluginConf(plugin), extras);
    return JSON.parse(new TextDecoder().decode(bytes));
  }
}

/** Returns the list as it is, or as one chain. */
function arrange(way: Way, plugins: readonly PluginObject[]): PluginObject[] {
  if (way !== "chain") return [...plugins];
  const { type, document } = makeChain(decodePluginConfs(plugins));
  return [{ ...document, type }];
}

/** Lists what attachments leave, without what they share. */
function stateOf(hosts: TestHosts): unknown {
  const { host, sandbox, directory } = hosts;
  const isOwn = (name: string): boolean =>
    !/^(cni0|cni-podman0|br0)$/.test(name);
  return {
    links: linkNames(host).filter(isOwn).sort(),
    inside: linkNames(sandbox),
    // The kernel's own rule for VRFs stays after the last one.
    rules: runIn(sandbox, "ip", "rule").split("\n")
      .filter((rule) => !rule.includes("[l3mdev-table]")),
    ports: needsInetRules.ignore ? [] : actingRules(host)
      .filter((rule) => /8080|10\.88|10\.244/.test(rule)),
    leases: hosts.leases(),
    saved: ["tuning", "flannel"].flatMap((name) =>
      unlessMissing(() => [...Deno.readDirSync(`${directory}/${name}`)]) ?? []
    ),
  };
}

/** Attaches a container, checks it, and detaches it twice. */
async function live(
  way: Way,
  { plugins, assertAdded }: Row,
  hosts: TestHosts,
): Promise<void> {
  await using daemon = way === "daemon"
    ? await NodeDaemon.start(hosts)
    : undefined;
  const list = plugins(hosts);
  const before = stateOf(hosts);
  const runtime = new Runtime(hosts, arrange(way, list), daemon);
  await runtime.run("ADD");
  const [link] = ipJson(hosts.sandbox, "link", "show", "dev", "eth0");
  assertEquals(link.ifname, "eth0");
  assertAdded?.(hosts);
  await runtime.run("CHECK");
  await runtime.run("DEL");
  assertEquals(stateOf(hosts), before);
  await runtime.run("DEL");
  if (daemon === undefined) return;
  // The calls were really the daemon's.
  const commands = ["ADD", "CHECK", "DEL", "DEL"];
  assertEquals((await daemon.story()).length, list.length * commands.length);
}

/** Makes links for plugins that use the host's, and flanneld's file. */
function prepare(hosts: TestHosts): void {
  for (const name of ["up0", "vf0"]) {
    runIn(hosts.host, "ip", "link", "add", name, "type", "veth");
  }
  runIn(hosts.host, "ip", "link", "set", "up0", "up");
  const lines = SUBNET_ENV.ipv4.map((line) => `${line}\n`);
  Deno.writeTextFileSync(`${hosts.directory}/subnet.env`, lines.join(""));
}

for (const [name, row] of Object.entries(ROWS)) {
  const needs = allOf(
    needsBin,
    row.needs ?? needsRoot,
  );
  rootTest(`executables attach and detach by ${name}`, needs, async (t) => {
    await eachRow(t, WAYS, async (way) => {
      using hosts = TestHosts.create();
      prepare(hosts);
      await live(way, row, hosts);
    });
  });
}

rootTest(
  "executables attach and detach by bridge with dhcp",
  allOf(needsBin, needsDnsmasq),
  async (t) => {
    await eachRow(t, WAYS, async (way) => {
      await using scene = await DhcpScene.start();
      const server = await scene.startDnsmasq();
      const plugins = [scene.config() as PluginObject];
      await live(way, { plugins: () => plugins }, scene.hosts);
      await server.says("DHCPRELEASE");
      assertEquals(scene.leases, []);
    });
  },
);

rootTest(
  "executables attach a multus pod to macvlan and tuning",
  needsBin,
  async () => {
    await using host = await MultusHost.start();
    runIn(host.hosts.host, "ip", "link", "add", "up0", "type", "veth");
    const before = host.remains();
    host.api.putNad("default", "red", {
      cniVersion: "1.0.0",
      name: "red",
      plugins: [
        {
          type: "macvlan",
          master: "up0",
          ipam: { type: "static", addresses: [{ address: "10.5.0.2/24" }] },
        },
        { ...tuning(host.hosts), sysctl: {}, mtu: 1300 },
      ],
    });
    const pod = host.addPod("web", { networks: "red" });
    await host.succeed("ADD", pod);
    assertEquals(host.interfaces(pod), ["eth0", "lo", "net1"]);
    const [link] = ipJson(pod.sandbox, "-d", "link", "show", "dev", "net1");
    assertEquals([link.mtu, link.linkinfo.info_kind], [1300, "macvlan"]);
    await host.succeed("CHECK", pod);
    await host.succeed("DEL", pod);
    assertEquals(host.remains(), before);
  },
);
