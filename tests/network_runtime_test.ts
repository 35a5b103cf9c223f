/**
 * The runtime library with real plugins, run in this process in temporary
 * namespaces: what is there after each operation, and after one that fails.
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { createInvoker } from "../cni/invoke/in_process.ts";
import {
  AttachmentLocks,
  lockDirectoryOf,
  type NetworkConfList,
  NetworkRuntime,
  parseNetworkConfList,
  type RuntimeConf,
} from "../libcni/mod.ts";
import { dispatch } from "../cni/skel.ts";
import type { NetNs } from "../ffi/netns.ts";
import { findPlugin } from "../plugins/registry.ts";
import { rootTest } from "../testing/capabilities.ts";
import { ipJson } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";

/** A runtime on a temporary host. */
function runtimeOf(hosts: TestHosts): NetworkRuntime {
  const cacheDir = `${hosts.directory}/cache`;
  return new NetworkRuntime({
    pluginDirs: [hosts.path],
    env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
    cacheDir,
    hostNetns: hosts.host.path,
    invoker: createInvoker(dispatch, findPlugin),
    locks: new AttachmentLocks(lockDirectoryOf(cacheDir)),
    onStderr: () => {},
  });
}

/** A network of ptp, and of what follows it. */
function listOf(hosts: TestHosts, ...chained: string[]): NetworkConfList {
  const ipam = hosts.hostLocal("10.1.2.0/24", "2001:db8::/64");
  return parseNetworkConfList(
    new TextEncoder().encode(JSON.stringify({
      name: "net1",
      cniVersion: "1.1.0",
      plugins: [{ type: "ptp", ipam }, ...chained.map((type) => ({ type }))],
    })),
  );
}

function confOf(containerId: string, netns: NetNs): RuntimeConf {
  return { containerId, netns: netns.path, ifName: "eth0" };
}

/** Names of the links in a namespace, its loopback aside. */
function linksIn(netns: NetNs): string[] {
  const links: { ifname: string }[] = ipJson(netns, "link");
  return links.map(({ ifname }) => ifname).filter((name) => name !== "lo");
}

rootTest("NetworkRuntime attaches, checks and detaches", async () => {
  using hosts = TestHosts.create();
  const runtime = runtimeOf(hosts);
  const list = listOf(hosts);
  const conf = confOf("c1", hosts.sandbox);
  const { document, result } = await runtime.addNetworkListOrUndo(list, conf);
  assertEquals(document["cniVersion"], "1.1.0");
  assertEquals(
    result.ips.map(({ address }) => `${address}`),
    hosts.leases()
      .map((address) => `${address}/${address.includes(":") ? 64 : 24}`),
  );
  assertEquals(linksIn(hosts.sandbox), ["eth0"]);
  await runtime.statusNetworkList(list);
  await runtime.checkNetworkList(list, conf);
  await runtime.delNetworkList(list, conf);
  assertEquals([linksIn(hosts.sandbox), linksIn(hosts.host)], [[], []]);
  assertEquals([hosts.leases(), runtime.listCachedAttachments()], [[], []]);
});

rootTest("NetworkRuntime leaves nothing after it undid an ADD", async () => {
  using hosts = TestHosts.create();
  const runtime = runtimeOf(hosts);
  const conf = confOf("c1", hosts.sandbox);
  await assertRejects(() =>
    runtime.addNetworkListOrUndo(listOf(hosts, "missing"), conf)
  );
  assertEquals([linksIn(hosts.sandbox), linksIn(hosts.host)], [[], []]);
  assertEquals([hosts.leases(), runtime.listCachedAttachments()], [[], []]);
});

rootTest("NetworkRuntime keeps what a second ADD finds", async () => {
  using hosts = TestHosts.create();
  const runtime = runtimeOf(hosts);
  const list = listOf(hosts);
  const conf = confOf("c1", hosts.sandbox);
  await runtime.addNetworkListOrUndo(list, conf);
  const leases = hosts.leases();
  await assertRejects(() => runtime.addNetworkListOrUndo(list, conf));
  await runtime.checkNetworkList(list, conf);
  assertEquals([linksIn(hosts.sandbox), hosts.leases()], [["eth0"], leases]);
  await runtime.delNetworkList(list, conf);
});

rootTest("NetworkRuntime attaches several, and GC detaches them", async () => {
  using hosts = TestHosts.create();
  const runtime = runtimeOf(hosts);
  const list = listOf(hosts);
  const confs = [hosts.sandbox, hosts.addNetns(), hosts.addNetns()]
    .map((netns, index) => confOf(`c${index}`, netns));
  await Promise.all(confs.map((conf) => runtime.addNetworkList(list, conf)));
  assertEquals(hosts.leases().length, 6);
  const [valid] = confs;
  assert(valid !== undefined);
  await runtime.gcNetworkList(list, { validAttachments: [valid] });
  assertEquals(hosts.leases().length, 2);
  assertEquals(linksIn(hosts.host).length, 1);
  const left = runtime.listCachedAttachments();
  assertEquals(left.map(({ containerId }) => containerId), ["c0"]);
  await runtime.checkNetworkList(list, valid);
  await runtime.delNetworkList(list, valid);
});
