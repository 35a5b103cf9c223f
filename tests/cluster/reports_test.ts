/**
 * What is reported about pods of a cluster: those that run without a network that
 * they request, networks that cannot be attached, and the traffic of each pod.
 */

import { assertEquals, assertMatch } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import { allOf } from "../../testing/capabilities.ts";
import { needsPrometheus, Prometheus } from "../monitoring/prometheus.ts";
import { until } from "../_harness/eventually.ts";
import { type Cluster, ptpNetwork } from "./cluster.ts";
import { clusterTest, needsCluster } from "./cluster_test_case.ts";
import { applyManifests, definition, prepareMultus } from "./multus.ts";
import { pod, settle } from "./pods.ts";

const NETWORKS = "k8s.v1.cni.cncf.io/networks";

/** Where the daemon of the manifests serves its metrics. */
const METRICS = "127.0.0.1:9467";

/** Lists what events of a reason say about a pod. */
function eventsOf(
  { api }: Cluster,
  name: string,
  reason: string,
): string[] {
  const selector = `involvedObject.name=${name},reason=${reason}`;
  return api.get("events", `--field-selector=${selector}`).items
    .map(({ message }: { message: string }) => message);
}

/** Reads a metric of the daemon: the value of each of its samples, by their labels. */
async function readSamples(
  { node }: Cluster,
  metric: string,
): Promise<Map<string, number>> {
  const text = await node.get(`busybox wget -qO- http://${METRICS}/metrics`);
  const lines = text.split("\n").filter((line) =>
    line.startsWith(`${metric} `) || line.startsWith(`${metric}{`)
  );
  return new Map(lines.map((line) => {
    const at = line.lastIndexOf(" ");
    return [line.slice(metric.length, at), Number(line.slice(at + 1))];
  }));
}

/** Lists the pods without networks that `cni doctor` finds. */
async function findMissing({ node }: Cluster): Promise<string[]> {
  const { stdout } = await node.run("/opt/cni/bin/cni doctor --json");
  return JSON.parse(stdout).findings
    .filter(({ code }: JsonObject) => code === "CNI0709")
    .map(({ message }: { message: string }) => message.split(" ", 1)[0]);
}

/** Adds an argument to the daemon of the manifests. */
async function addDaemonArgument(
  cluster: Cluster,
  argument: string,
): Promise<void> {
  const { api } = cluster;
  const daemonSet = ["-n", "kube-system", "daemonset/kube-multus-ds"];
  const { spec } = api.get(...daemonSet);
  const at = spec.template.spec.containers
    .findIndex(({ name }: JsonObject) => name === "multus-daemon");
  const path = `/spec/template/spec/containers/${at}/args/-`;
  const patch = JSON.stringify([{ op: "add", path, value: argument }]);
  api.kubectl("patch", ...daemonSet, "--type=json", "-p", patch);
  api.kubectl("rollout", "status", ...daemonSet, "--timeout=4m");
  await settle(cluster);
}

clusterTest("missing networks are reported, and traffic counted", {
  network: ptpNetwork,
  prepare: prepareMultus,
  needs: allOf(needsCluster, needsPrometheus),
}, async (cluster, step) => {
  const { api, hosts, node } = cluster;
  const missing = async (): Promise<number | undefined> =>
    (await readSamples(cluster, "cni_daemon_pods_missing_networks")).get("");

  // Before multus: the runtime attaches it to the network of the node only.
  api.apply(pod("early", { annotations: { [NETWORKS]: "green" } }));
  await settle(cluster);
  await applyManifests(cluster, true);
  await addDaemonArgument(cluster, "--pod-metrics");
  api.apply(
    definition("green", {
      type: "bridge",
      bridge: "br-green",
      isGateway: true,
      ipam: { type: "host-local", subnet: "10.56.0.0/24" },
    }),
    definition("broken", {
      type: "macvlan",
      master: "nowhere",
      ipam: { type: "host-local", subnet: "10.58.0.0/24" },
    }),
  );
  using netns = node.openNetns();
  const textfiles = `${hosts.directory}/textfiles`;
  await Deno.mkdir(textfiles);
  await using prometheus = await Prometheus.start({
    netns,
    directory: hosts.directory,
    textfiles,
    daemon: METRICS,
    edit: (rules) => rules.replaceAll(/\bfor: \w+/g, "for: 1s"),
  });
  const isFiring = async (): Promise<boolean> =>
    (await prometheus.firing("CniNetworkMissing")).length > 0;

  await step("a pod from before multus is reported", async () => {
    await until("the alert fires", isFiring);
    assertEquals(await missing(), 1);
    const [message = ""] = eventsOf(cluster, "early", "NetworkMissing");
    assertMatch(message, /^The pod runs without default\/green\. /);
    assertMatch(
      await node.get("/opt/cni/bin/cni list"),
      /MISSING.*early.*default\/green/s,
    );
    assertEquals(await findMissing(cluster), ["default/early"]);
  });

  await step("a request that changes while the pod runs", async () => {
    api.apply(pod("late", { annotations: { [NETWORKS]: "green" } }));
    await settle(cluster);
    const networks = `${NETWORKS}=green,unknown`;
    api.kubectl("annotate", "--overwrite", "pod", "late", networks);
    await until("both pods are counted", async () => await missing() === 2);
    const [message = ""] = eventsOf(cluster, "late", "NetworkMissing");
    assertMatch(message, /^The pod runs without default\/unknown\. /);
  });

  await step("networks that cannot be attached are reported", async () => {
    api.apply(
      pod("unknown", { annotations: { [NETWORKS]: "unknown" } }),
      pod("broken", { annotations: { [NETWORKS]: "broken" } }),
    );
    await until(
      "the pod of an unknown network has its event",
      () => eventsOf(cluster, "unknown", "NoNetworkFound").length > 0,
    );
    await until(
      "the kubelet says why",
      () =>
        ["unknown", "broken"].every((name) =>
          eventsOf(cluster, name, "FailedCreatePodSandBox").some((message) =>
            message.includes(name === "broken" ? `"nowhere"` : "unknown")
          )
        ),
    );
    // They do not run, and so lack nothing.
    assertEquals(await missing(), 2);
    const calls = await readSamples(cluster, "cni_daemon_calls_total");
    const failed = [...calls.keys()].filter((labels) =>
      labels.includes(`command="ADD"`) && !labels.includes(`code="0"`)
    );
    assertEquals(failed.length > 0, true, [...calls.keys()].join("\n"));
    api.kubectl("delete", "pod", "unknown", "broken");
  });

  await step("pods that are created again get their networks", async () => {
    api.kubectl("delete", "pod", "early", "late");
    api.apply(
      ...["early", "late"].map((name) =>
        pod(name, { annotations: { [NETWORKS]: "green" } })
      ),
    );
    await settle(cluster);
    await until("the alert has cleared", async () => !await isFiring());
    assertEquals(await missing(), 0);
    assertEquals(await findMissing(cluster), []);
  });

  await step("the traffic of each pod by network and interface", async () => {
    const metric = "cni_pod_network_receive_bytes_total";
    const labels = (name: string, link: string, network: string): string =>
      `{namespace="default",pod="${name}",network="${network}",interface="${link}"}`;
    const before = await readSamples(cluster, metric);
    assertEquals(
      [...before.keys()].toSorted(),
      ["early", "late"].flatMap((name) => [
        labels(name, "net1", "green"),
        labels(name, "eth0", "pods"),
      ]),
    );
    const [, { ips: [address] }] = JSON.parse(
      api.get("pod", "early").metadata
        .annotations["k8s.v1.cni.cncf.io/network-status"],
    );
    await node.get(`ping -qc 20 -i 0.01 -s 1000 ${address}`);
    await until("they are counted where they arrived", async () => {
      const after = await readSamples(cluster, metric);
      const grown = (name: string, link: string, network: string): number =>
        (after.get(labels(name, link, network)) ?? 0) -
        (before.get(labels(name, link, network)) ?? 0);
      return grown("early", "net1", "green") >= 20 * 1042 &&
        grown("late", "net1", "green") < 20 * 1042 &&
        grown("early", "eth0", "pods") < 20 * 1042;
    });
  });
});
