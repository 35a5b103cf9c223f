/**
 * A node agent's networks with real plugins, run in this process on temporary
 * hosts: what pods have, and what is left of them.
 */

import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { createInvoker } from "../cni/invoke/in_process.ts";
import { dispatch } from "../cni/skel.ts";
import type { NetNs } from "../ffi/netns.ts";
import { findPlugin } from "../plugins/registry.ts";
import {
  NodeNetwork,
  type NodeNetworkOptions,
  type Pod,
  PodNetworkError,
} from "../node/mod.ts";
import { rootTest } from "../testing/capabilities.ts";
import { canPing, ipJson, runIn } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";

/** A temporary host with an agent on it. */
class AgentHost implements Disposable {
  readonly hosts = TestHosts.create();
  readonly confDir = `${this.hosts.directory}/net.d`;
  readonly cacheDir = `${this.hosts.directory}/cache`;
  logged = "";
  readonly network: NodeNetwork;

  constructor(options: Partial<NodeNetworkOptions> = {}) {
    Deno.mkdirSync(this.confDir);
    this.network = this.startAgent(options);
  }

  /** Starts one more agent, as after a crash of the first. */
  startAgent(options: Partial<NodeNetworkOptions> = {}): NodeNetwork {
    return new NodeNetwork({
      confDir: this.confDir,
      pluginDirs: [this.hosts.path],
      cacheDir: this.cacheDir,
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
      hostNetns: this.hosts.host.path,
      invoker: createInvoker(dispatch, findPlugin),
      onStderr: (text) => void (this.logged += text),
      ...options,
    });
  }

  /** Writes a network of ptp, and of what follows it. */
  addNetwork(file: string, name: string, ...chained: string[]): void {
    const ipam = this.hosts.hostLocal(
      name === "net1" ? "10.1.2.0/24" : "10.7.0.0/24",
      name === "net1" ? "fd00:1::/64" : "fd00:7::/64",
    );
    this.writeConf(
      file,
      JSON.stringify({
        name,
        cniVersion: "1.1.0",
        plugins: [{ type: "ptp", ipam }, ...chained.map((type) => ({ type }))],
      }),
    );
  }

  /** Puts a file in place atomically, as installers do. */
  writeConf(file: string, text: string): void {
    const path = `${this.confDir}/${file}`;
    Deno.writeTextFileSync(`${path}.new`, text);
    Deno.renameSync(`${path}.new`, path);
  }

  /** Adds a plugin that succeeds at everything but ADD. */
  addFailingPlugin(type: string): void {
    const versions = '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}';
    Deno.writeTextFileSync(
      `${this.hosts.path}/${type}`,
      `#!/bin/sh
      case "$CNI_COMMAND" in
      VERSION) echo '${versions}' ;;
      ADD) echo '{"code":111,"msg":"not today"}'; exit 1 ;;
      esac`,
      { mode: 0o755 },
    );
  }

  /** Describes the pod of a sandbox whose loopback is down, as it is at first. */
  pod(containerId: string, netns: NetNs = this.hosts.addNetns()): Pod {
    runIn(netns, "ip", "link", "set", "lo", "down");
    return {
      namespace: "default",
      name: `pod-${containerId}`,
      uid: `uid-${containerId}`,
      containerId,
      netns: netns.path,
    };
  }

  /** All that is left of pods: links on the host, leases, files of the cache. */
  get remains(): string[] {
    const links: { ifname: string }[] = ipJson(this.hosts.host, "link");
    const cached = [...Deno.readDirSync(`${this.cacheDir}/results`)];
    return [
      ...links.map(({ ifname }) => ifname).filter((name) => name !== "lo"),
      ...this.hosts.leases("net1"),
      ...this.hosts.leases("net2"),
      ...cached.map(({ name }) => name),
    ];
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

/** Names of the links in a namespace that are up. */
function linksUp(netns: NetNs): string[] {
  const links: { ifname: string; flags: string[] }[] = ipJson(netns, "link");
  return links.filter(({ flags }) => flags.includes("UP"))
    .map(({ ifname }) => ifname);
}

rootTest("NodeNetwork attaches, shows and detaches a pod", async () => {
  using agent = new AgentHost();
  agent.addNetwork("10-net1.conflist", "net1");
  const { hosts: { sandbox }, network } = agent;
  const pod = agent.pod("c1", sandbox);
  assertEquals((await network.status()).isReady, true);
  const { ip, ips } = await network.setUpPod(pod);
  assertEquals(linksUp(sandbox), ["lo", "eth0"]);
  assertEquals([`${ip}`, ...ips.map(String)], [
    "10.1.2.2",
    "10.1.2.2",
    "fd00:1::2",
  ]);
  assertEquals(await network.getPodNetworkStatus(pod), { ip, ips });
  assert(canPing(agent.hosts.host, "10.1.2.2"));
  await network.checkPod(pod);
  await network.tearDownPod(pod);
  assertEquals([linksUp(sandbox), agent.remains], [[], []]);
  await network.tearDownPod(pod);
});

rootTest("NodeNetwork.getPodNetworkStatus() reads the kernel", async () => {
  using agent = new AgentHost();
  agent.addNetwork("10-net1.conflist", "net1");
  const { hosts: { sandbox }, network } = agent;
  const pod = agent.pod("c1", sandbox);
  const statusOf = async (): Promise<string[]> =>
    (await network.getPodNetworkStatus(pod)).ips.map(String);
  const error = await assertRejects(statusOf, PodNetworkError);
  assertStringIncludes(
    `${error}`,
    "networkPlugin cni failed on the status hook for pod " +
      '"pod-c1_default": Cannot find an IP address',
  );
  await network.setUpPod(pod);
  runIn(sandbox, "ip", "address", "add", "10.1.2.99/32", "dev", "eth0");
  assertEquals(await statusOf(), ["10.1.2.2", "10.1.2.99", "fd00:1::2"]);
  runIn(sandbox, "ip", "-4", "address", "flush", "dev", "eth0");
  assertEquals(await statusOf(), ["fd00:1::2"]);
  await network.tearDownPod(pod);
});

rootTest("NodeNetwork.checkPod() finds changes to a pod", async () => {
  using agent = new AgentHost();
  agent.addNetwork("10-net1.conflist", "net1");
  const { hosts: { sandbox }, network } = agent;
  const pod = agent.pod("c1", sandbox);
  await network.setUpPod(pod);
  runIn(sandbox, "ip", "link", "set", "lo", "down");
  const lo = await assertRejects(() => network.checkPod(pod));
  assertStringIncludes(`${lo}`, 'Interface "lo" is down');
  runIn(sandbox, "ip", "link", "set", "lo", "up");
  await network.checkPod(pod);
  runIn(sandbox, "ip", "-4", "address", "flush", "dev", "eth0");
  await assertRejects(() => network.checkPod(pod), PodNetworkError);
  await network.tearDownPod(pod);
});

rootTest("NodeNetwork attaches and detaches ten pods together", async () => {
  using agent = new AgentHost();
  agent.addNetwork("10-net1.conflist", "net1");
  const { network } = agent;
  const pods = Array.from({ length: 10 }, (_, i) => agent.pod(`c${i}`));
  const networks = await Promise.all(
    pods.map((pod) => network.setUpPod(pod)),
  );
  const ips = networks.flatMap(({ ips }) => ips.map(String));
  assertEquals(new Set(ips).size, 20);
  const statuses = await Promise.all(
    pods.map((pod) => network.getPodNetworkStatus(pod)),
  );
  assertEquals(statuses.flatMap(({ ips }) => ips.map(String)), ips);
  await Promise.all(pods.map((pod) => network.checkPod(pod)));
  await Promise.all(pods.map((pod) => network.tearDownPod(pod)));
  assertEquals(agent.remains, []);
});

rootTest("NodeNetwork detaches a pod whose namespace was deleted", async () => {
  using agent = new AgentHost();
  agent.addNetwork("10-net1.conflist", "net1");
  const { network, hosts } = agent;
  const netns = hosts.addNetns();
  const pod = agent.pod("c1", netns);
  await network.setUpPod(pod);
  netns[Symbol.dispose]();
  assertEquals(hosts.leases().length, 2);
  await network.tearDownPod(pod);
  assertEquals(hosts.leases(), []);
  assertStringIncludes(agent.logged, "The network namespace was deleted");
  await assertRejects(
    () => network.getPodNetworkStatus(pod),
    PodNetworkError,
  );
});

rootTest("NodeNetwork leaves nothing if set-up fails half-way", async () => {
  using agent = new AgentHost();
  agent.addFailingPlugin("faulty");
  agent.addNetwork("10-net1.conflist", "net1", "faulty");
  const { hosts: { sandbox }, network } = agent;
  const pod = agent.pod("c1", sandbox);
  const error = await assertRejects(
    () => network.setUpPod(pod),
    PodNetworkError,
  );
  assertEquals([error.code, `${error}`], [
    111,
    'networkPlugin cni failed to set up pod "pod-c1_default" network: ' +
    'plugin type="faulty" failed (add): not today',
  ]);
  assertEquals([linksUp(sandbox), agent.remains], [[], []]);
  agent.addNetwork("10-net1.conflist", "net1");
  await network.setUpPod(pod);
  await network.tearDownPod(pod);
});

rootTest("NodeNetwork uses a replaced configuration", async () => {
  using agent = new AgentHost();
  agent.addNetwork("10-net1.conflist", "net1");
  const { network } = agent;
  const [old, late] = [agent.pod("c1"), agent.pod("c2")];
  await network.setUpPod(old);
  agent.addNetwork("10-net1.conflist", "net2");
  const { network: name, ip } = await network.setUpPod(late);
  assertEquals([name, `${ip}`], ["net2", "10.7.0.2"]);
  await Promise.all([old, late].map((pod) => network.checkPod(pod)));
  await agent.startAgent().tearDownPod(old);
  await network.tearDownPod(late);
  assertEquals(agent.remains, []);
});

rootTest("NodeNetwork is not ready with a broken configuration", async () => {
  using agent = new AgentHost();
  agent.addNetwork("10-net1.conflist", "net1");
  const { network } = agent;
  const [before, during] = [agent.pod("c1"), agent.pod("c2")];
  await network.setUpPod(before);
  agent.writeConf("10-net1.conflist", "{");
  const { isReady, reason } = await network.status();
  assertEquals(isReady, false);
  assertStringIncludes(reason ?? "", "cni config uninitialized: ");
  assertStringIncludes(reason ?? "", "10-net1.conflist");
  const error = await assertRejects(
    () => network.setUpPod(during),
    PodNetworkError,
  );
  assertEquals(error.code, 50);
  // What is there already goes on, and can be had away.
  await network.getPodNetworkStatus(before);
  await network.tearDownPod(before);
  assertEquals(agent.remains, []);
  agent.addNetwork("10-net1.conflist", "net1");
  assertEquals((await network.status()).isReady, true);
  await network.setUpPod(during);
  await network.tearDownPod(during);
});

rootTest("NodeNetwork detaches pods of an agent that died", async () => {
  using agent = new AgentHost();
  agent.addNetwork("10-net1.conflist", "net1");
  const [old, gone] = [agent.pod("c1"), agent.pod("c2")];
  for (const pod of [old, gone]) await agent.network.setUpPod(pod);
  agent.addNetwork("10-net1.conflist", "net2");
  const network = agent.startAgent();
  const stays = agent.pod("c3");
  await network.setUpPod(stays);
  await network.collectGarbage([old, stays]);
  assertEquals(agent.hosts.leases("net1"), ["10.1.2.2", "fd00:1::2"]);
  assertEquals(agent.hosts.leases("net2"), ["10.7.0.2", "fd00:7::2"]);
  await Promise.all([old, stays].map((pod) => network.checkPod(pod)));
  await network.collectGarbage([]);
  assertEquals(agent.remains, []);
});
