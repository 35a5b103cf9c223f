import { assert, assertEquals } from "@std/assert";
import { formatGauge } from "../../daemon/server/metrics.ts";
import type { NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { AttachmentCache } from "../../libcni/mod.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { PodMetrics } from "./pod_metrics.ts";

/** A node with pods on veth pairs, as a runtime caches them. */
class Scene implements Disposable {
  readonly hosts: TestHosts = TestHosts.create();
  readonly cacheDir: string = `${this.hosts.directory}/cache`;
  #age = 0;

  /** Adds a sandbox whose eth0 is connected to the host. */
  addSandbox(at: number): NetNs {
    const { hosts } = this;
    const netns = hosts.addNetns();
    using node = Rtnl.open(hosts.host.path);
    const name = `v${at}`;
    node.link.addVeth({ name, peer: { name: "eth0", netns } });
    runIn(hosts.host, "ip", "address", "add", `10.9.${at}.1/24`, "dev", name);
    runIn(netns, "ip", "address", "add", `10.9.${at}.2/24`, "dev", "eth0");
    runIn(netns, "ip", "link", "set", "eth0", "up");
    return netns;
  }

  /** Caches an attachment; each is newer than those before. */
  cache(pod: string, netns: string, {
    ifName = "eth0",
    network = "pods",
    containerId = `sandbox-of-${pod.replace("/", "-")}`,
    cacheDir = this.cacheDir,
  } = {}): void {
    const [namespace = "", name = ""] = pod.split("/");
    const cache = new AttachmentCache(cacheDir);
    const key = { network, containerId, ifName };
    cache.writeAttachment({
      ...key,
      netns,
      config: new TextEncoder().encode(`{"name":"${network}","plugins":[]}`),
      cniArgs: [["K8S_POD_NAMESPACE", namespace], ["K8S_POD_NAME", name]],
      capabilityArgs: {},
    }, { cniVersion: "1.0.0" });
    const time = new Date(Date.now() - 100_000 + this.#age++ * 1000);
    Deno.utimeSync(cache.pathOf(key), time, time);
  }

  open(most = 1000): PodMetrics {
    const { cacheDir, hosts } = this;
    const hostNetns = hosts.host.path;
    return new PodMetrics({
      directories: { cacheDir },
      hostNetns,
      most,
      restMs: 0,
    });
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

/** Reads the samples by name and labels. */
async function read(metrics: PodMetrics): Promise<Map<string, number>> {
  await metrics.count();
  const lines = metrics.listGauges().map(formatGauge).join("").split("\n");
  const samples = lines.filter((line) => line && !line.startsWith("#"))
    .map((line) =>
      [line.replace(/ \S+$/, ""), line.split(" ").at(-1)] as const
    );
  // Prometheus refuses an answer that has a sample twice.
  assertEquals(new Set(samples.map(([name]) => name)).size, samples.length);
  return new Map(samples.map(([name, value]) => [name, Number(value)]));
}

function nameOf(family: string, pod = "web", ifName = "eth0"): string {
  return `cni_pod_network_${family}{namespace="default",pod="${pod}",` +
    `network="pods",interface="${ifName}"}`;
}

rootTest("PodMetrics counts from the side of the pod", async () => {
  using scene = new Scene();
  const web = scene.addSandbox(1);
  scene.cache("default/web", web.path);
  const metrics = scene.open();
  const before = await read(metrics);
  // Nobody answers: the pod only sends.
  runIn(
    web,
    "sh",
    "-c",
    "ip neigh add 10.9.1.9 lladdr 02:00:00:00:00:09 dev eth0; " +
      "ping -q -c 5 -i 0.01 -W 1 -s 1000 10.9.1.9 > /dev/null; true",
  );
  const after = await read(metrics);
  const grown = (family: string): number =>
    (after.get(nameOf(family)) ?? NaN) - (before.get(nameOf(family)) ?? NaN);
  assert(grown("transmit_packets_total") >= 5);
  assert(grown("transmit_bytes_total") >= 5 * 1042);
  assert(grown("receive_bytes_total") < 5 * 1042);
  assertEquals(after.get(nameOf("carrier")), 1);
  // Neither the kernel's address detection nor the ping goes on.
  runIn(web, "ip", "link", "set", "eth0", "down");
  const down = await read(metrics);
  const [{ stats64 }] = ipJson(web, "-s", "link", "show", "eth0");
  assertEquals(
    [
      "receive_bytes_total",
      "receive_packets_total",
      "receive_packets_dropped_total",
      "receive_errors_total",
      "transmit_bytes_total",
      "transmit_packets_total",
      "transmit_packets_dropped_total",
      "transmit_errors_total",
    ].map((family) => down.get(nameOf(family))),
    [
      stats64.rx.bytes,
      stats64.rx.packets,
      stats64.rx.dropped,
      stats64.rx.errors,
      stats64.tx.bytes,
      stats64.tx.packets,
      stats64.tx.dropped,
      stats64.tx.errors,
    ],
  );
  const [changes = 0, earlier = 0] = [down, after]
    .map((samples) => samples.get(nameOf("carrier_changes_total")));
  assert(changes > earlier, `${changes}, ${earlier}`);
});

rootTest("PodMetrics counts each interface of a pod once", async (t) => {
  using scene = new Scene();
  const old = scene.addSandbox(1), web = scene.addSandbox(2);
  const podman = scene.addSandbox(3);
  const pods = (samples: Map<string, number>): string[] =>
    [...samples.keys()].filter((name) => name.includes("_carrier{"));
  const leftOut = (samples: Map<string, number>, reason: string): unknown =>
    samples.get(`cni_pod_network_interfaces_left_out{reason="${reason}"}`);
  runIn(old, "ping", "-c", "1", "10.9.1.1");
  scene.cache("default/web", old.path, { containerId: "old" });
  const metrics = scene.open();
  await t.step("a new attachment is found", async () => {
    assertEquals(pods(await read(metrics)), [nameOf("carrier")]);
    scene.cache("default/db", web.path);
    assertEquals(pods(await read(metrics)), [
      nameOf("carrier"),
      nameOf("carrier", "db"),
    ]);
  });
  await t.step("a pod with two sandboxes shows the newer one", async () => {
    scene.cache("default/web", web.path, { containerId: "new" });
    const [{ stats64 }] = ipJson(web, "-s", "link", "show", "eth0");
    const samples = await read(metrics);
    assertEquals(pods(samples).length, 2);
    assert(
      (samples.get(nameOf("receive_bytes_total")) ?? NaN) >= stats64.rx.bytes,
    );
    const [{ stats64: others }] = ipJson(old, "-s", "link", "show", "eth0");
    assert(
      others.rx.packets !== samples.get(nameOf("receive_packets_total")),
    );
  });
  await t.step("multus' attachment replaces the runtime's", async () => {
    const cacheDir = `${scene.cacheDir}/multus`;
    scene.cache("default/db", web.path, { network: "master", cacheDir });
    const [, ...others] = pods(await read(metrics));
    assertEquals(others, [
      nameOf("carrier", "db").replace("pods", "master"),
    ]);
  });
  await t.step(
    "lo, missing links, the host and deleted sandboxes are omitted",
    async () => {
      scene.cache("default/a", web.path, { ifName: "lo" });
      scene.cache("default/b", web.path, { ifName: "net9" });
      scene.cache("default/c", scene.hosts.host.path, { ifName: "v1" });
      scene.cache("default/d", "/proc/1/root/run/netns/none");
      scene.cache("/podman", podman.path, { containerId: "podman" });
      const samples = await read(metrics);
      assertEquals(pods(samples).length, 2);
      assertEquals(
        [leftOut(samples, "unreadable"), leftOut(samples, "limit")],
        [2, 0],
      );
    },
  );
  await t.step("beyond the limit, the newest are omitted", async () => {
    const samples = await read(scene.open(1));
    assertEquals(pods(samples).length, 1);
    assertEquals(leftOut(samples, "limit"), 3);
  });
  await t.step("concurrent readers share a count", async () => {
    const first = metrics.count();
    assertEquals(metrics.count(), first);
    await first;
  });
});
