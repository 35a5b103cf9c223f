/**
 * What must be true of the pods of a cluster, at any time and in the end.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import { NetNs } from "../../ffi/netns.ts";
import { findReached, ipJson, linkNames } from "../../testing/ip_json.ts";
import { actingRules } from "../_harness/acting_rules.ts";
import { DIRECTORY } from "../_harness/kube_apiserver.ts";
import { spawnIn } from "../_harness/spawn_in.ts";
import { type Cluster, POD_IMAGE } from "./cluster.ts";
import type { Node } from "./node.ts";
import type { Runtime } from "./runtime.ts";
import { until } from "../_harness/eventually.ts";

// deno-lint-ignore no-explicit-any -- as kubectl and ip print it
type Json = any;

/** A network namespace on a node, and the addresses in it. */
export interface Sandbox {
  /** As the node finds it. */
  readonly path: string;
  readonly addresses: readonly string[];
}

/** Options of a pod. */
export interface PodOptions {
  readonly annotations?: JsonObject;
  /** Which node; the scheduler's choice if undefined. */
  readonly nodeName?: string;
  /** A port of the node that leads to the pod's web server. */
  readonly hostPort?: number;
}

/** Describes what a pod has, and copies of it. */
export function podTemplate(
  app: string,
  { annotations = {}, nodeName, hostPort }: PodOptions = {},
): JsonObject {
  const port = { containerPort: 80, ...hostPort && { hostPort } };
  return {
    metadata: { labels: { app }, annotations },
    spec: {
      ...nodeName !== undefined && { nodeName },
      terminationGracePeriodSeconds: 0,
      automountServiceAccountToken: false,
      // A node that is away for a while keeps its pods.
      tolerations: [{ operator: "Exists", effect: "NoExecute" }],
      containers: [{
        name: "web",
        image: POD_IMAGE,
        imagePullPolicy: "Never",
        ports: [port],
      }],
    },
  };
}

/** Describes a pod. */
export function pod(name: string, options: PodOptions = {}): JsonObject {
  const { metadata, spec } = podTemplate(name, options) as Json;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { ...metadata, name },
    spec,
  };
}

/** Describes a Deployment or a StatefulSet. */
export function workload(
  kind: "Deployment" | "StatefulSet",
  name: string,
  replicas: number,
  options: PodOptions = {},
): JsonObject {
  return {
    apiVersion: "apps/v1",
    kind,
    metadata: { name },
    spec: {
      replicas,
      selector: { matchLabels: { app: name } },
      template: podTemplate(name, options),
      ...kind === "StatefulSet" && { serviceName: name },
    },
  };
}

/** Lists the sandboxes of a node. */
export async function listSandboxes(node: Node): Promise<Sandbox[]> {
  // CRI-O also has a file on the node's own namespace there, for pods that share it.
  const script = `for f in /run/netns/*; do
    [ -e "$f" ] || continue
    [ "$f" -ef /proc/self/ns/net ] && continue
    echo "$f $(nsenter --net="$f" ip -j address show scope global 2> /dev/null | tr -d '\\n')"
  done`;
  return (await node.get(script)).split("\n").filter((line) => line !== "")
    .map((line) => {
      const path = line.slice(0, line.indexOf(" "));
      const links = JSON.parse(line.slice(path.length + 1) || "[]");
      // A filter of ip leaves an empty object for what it leaves out.
      const addresses = links.flatMap(({ addr_info = [] }: Json) =>
        addr_info.flatMap(({ local = [] }: Json) => local)
      );
      return { path, addresses };
    });
}

/** Kills what runs in a sandbox, and removes its namespace, behind the runtime's back. */
export async function killSandbox(
  node: Node,
  { path }: Sandbox,
): Promise<void> {
  const name = path.slice(path.lastIndexOf("/") + 1);
  await node.get(`kill -9 $(ip netns pids ${name}); ip netns delete ${name}`);
}

/** Programs that clients of the API server need. */
const CLIENT_PATH = `${DIRECTORY}:/usr/bin:/bin`;

/**
 * Replaces the pods of a deployment while the body runs, again and again, and
 * fails if a sandbox could not be created or removed during that time.
 */
export async function whileRolling(
  cluster: Cluster,
  name: string,
  body: () => void | Promise<void>,
): Promise<void> {
  const { api, hosts: { host, directory } } = cluster;
  const end = `${directory}/rolling.end`;
  const before = listSandboxFailures(cluster);
  const script = `while [ ! -e "$1" ]; do
    kubectl rollout restart "deployment/$0" || exit 1
    kubectl rollout status "deployment/$0" --timeout=4m || exit 1
  done`;
  const rolling = spawnIn(host, {
    path: "sh",
    args: ["-c", script, name, end],
    env: {
      PATH: CLIENT_PATH,
      HOME: directory,
      KUBECONFIG: api.programs.kubeconfig,
    },
    stdin: "",
  });
  try {
    await body();
  } finally {
    await Deno.writeTextFile(end, "");
    const { code, stdout, stderr } = await rolling.output;
    await Deno.remove(end);
    assertEquals(code, 0, stdout + stderr);
  }
  assertEquals(listSandboxFailures(cluster), before);
}

/** Lists the events about sandboxes that could not be created or removed. */
function listSandboxFailures({ api }: Cluster): string[] {
  return api.get("events").items
    .filter(({ reason }: Json) =>
      ["FailedCreatePodSandBox", "FailedKillPod"].includes(reason)
    )
    .map(({ involvedObject, message }: Json) =>
      `${involvedObject.name}: ${message}`
    ).toSorted();
}

/**
 * Ends the runtime of the first node, and starts it again. If it runs GC then,
 * waits until that has removed a lease without a pod from the network `pods`.
 */
export async function cycleRuntime(
  cluster: Cluster,
  { program, hasGc }: Runtime,
  signal: "SIGTERM" | "SIGKILL",
): Promise<void> {
  const { node } = cluster;
  const lease = "/var/lib/cni/networks/pods/10.244.1.250";
  if (hasGc) node.write(lease, `${"0".repeat(64)}\r\neth0`);
  await node.signal(program, signal);
  await cluster.restartRuntime(node);
  if (!hasGc) return;
  await until(
    "GC has run",
    async () => (await node.run(`test -e ${lease}`)).code !== 0,
  );
}

/** Says which addresses more than one sandbox of a cluster has. */
async function findTwice(cluster: Cluster): Promise<string[]> {
  const lists = await Promise.all(cluster.nodes.map(listSandboxes));
  const all = lists.flat().flatMap(({ addresses }) => addresses);
  return all.filter((address, at) => all.indexOf(address) !== at);
}

/** Fails if two sandboxes have an address. Those are read one after the other. */
export async function assertNoAddressTwice(cluster: Cluster): Promise<void> {
  const [first, second] = [await findTwice(cluster), await findTwice(cluster)];
  assertEquals(first.filter((address) => second.includes(address)), []);
}

/** Says what is wrong with the pods of a cluster; nothing once it has settled. */
export async function findComplaints(
  cluster: Cluster,
  nodes: readonly Node[] = cluster.nodes,
): Promise<string[]> {
  const { items } = cluster.api.get(
    "pods",
    "--all-namespaces",
    "--field-selector=status.phase!=Succeeded",
  );
  const complaints: string[] = items.filter(({ spec }: Json) => !spec.nodeName)
    .map(({ metadata }: Json) => `${metadata.name} has no node`);
  const sandboxes: Sandbox[][] = [];
  for (const node of nodes) {
    node.assertRuns();
    const own: Json[] = items.filter(({ spec }: Json) =>
      spec.nodeName === node.name
    );
    complaints.push(...own.flatMap(describeUnready));
    const expected = own.filter(({ spec }) => !spec.hostNetwork)
      .map(({ status }) => status.podIP ?? "none");
    const found = await listSandboxes(node);
    sandboxes.push(found);
    const names = found.map(({ addresses }) =>
      expected.find((address) => addresses.includes(address)) ??
        `unknown ${addresses}`
    );
    if (expected.toSorted().join() !== names.toSorted().join()) {
      complaints.push(`${node.name} has ${names} instead of ${expected}`);
    }
  }
  if (complaints.length > 0) return complaints;
  const all = sandboxes.flat().flatMap(({ addresses }) => addresses);
  return nodes.flatMap((node, at) =>
    findUnreachable(node, sandboxes[at] ?? [], all)
  );
}

function describeUnready({ metadata, status }: Json): string[] {
  const { name, deletionTimestamp } = metadata;
  if (deletionTimestamp) return [`${name} is being deleted`];
  const statuses = status.containerStatuses ?? [];
  if (statuses.length > 0 && statuses.every(({ ready }: Json) => ready)) {
    return [];
  }
  const reasons = statuses.map(({ state }: Json) => state.waiting?.reason);
  return [`${name} is ${status.phase} ${reasons}`];
}

/** The network that all pods have. */
const POD_NETWORK = "10.244";

/** All networks of the tests have prefixes of 16 bits. */
function networkOf(address: string): string {
  return address.split(".", 2).join(".");
}

/** Pings all pods from a node, and from two pods there as far as they share a network. */
function findUnreachable(
  node: Node,
  sandboxes: readonly Sandbox[],
  all: readonly string[],
): string[] {
  using host = node.openNetns();
  const pods = sandboxes.filter((_, at) =>
    [0, sandboxes.length - 1].includes(at)
  );
  return [
    ...describeLost(node.name, host, all, [POD_NETWORK]),
    ...pods.flatMap(({ path, addresses }) => {
      using netns = NetNs.open(node.pathOf(path));
      return describeLost(`${addresses}`, netns, all, addresses.map(networkOf));
    }),
  ];
}

function describeLost(
  name: string,
  from: NetNs,
  all: readonly string[],
  networks: readonly string[],
): string[] {
  const wanted = all.filter((one) => networks.includes(networkOf(one)));
  const reached = findReached(from, wanted, 5);
  return wanted.filter((address) => !reached.includes(address))
    .map((address) => `${name} does not reach ${address}`);
}

/** Waits until the pods are what the cluster wants, and fails if an address is there twice. */
export async function settle(
  cluster: Cluster,
  nodes: readonly Node[] = cluster.nodes,
): Promise<void> {
  let complaints: string[] = [];
  await until(
    "the pods have settled",
    async () => {
      await assertNoAddressTwice(cluster);
      complaints = await findComplaints(cluster, nodes);
      return complaints.length === 0;
    },
    () => `${complaints.join("; ")}\n${describeEvents(cluster)}`,
  );
}

function describeEvents({ api }: Cluster): string {
  const args = [
    "get",
    "events",
    "--all-namespaces",
    "--sort-by=.lastTimestamp",
  ];
  return api.kubectl(...args).trimEnd().split("\n").slice(-20).join("\n");
}

/** Everything that pods leave on a node. */
export interface Traces {
  readonly links: readonly string[];
  readonly routes: readonly string[];
  readonly rules: readonly string[];
  readonly sandboxes: readonly string[];
  /** Leases, allocation files, and attachments that runtimes and multus keep. */
  readonly files: readonly string[];
}

/** Locks, which nobody may remove, and where host-local goes on. */
const STAYING = /\/(\.?lock|locks\/\.\w+|last_reserved_ip.*)$/;

/** Rules that portmap and CRI-O keep for all ports. */
const STAYING_RULES = /HOSTPORT-MASQ|^ip6? crio-hostports /;

/** Reads what pods have left on a node. */
export async function readTraces(node: Node): Promise<Traces> {
  using netns = node.openNetns();
  const find = `find /var/lib/cni /run/cni -type f 2>/dev/null | sort`;
  const files = (await node.get(find)).split("\n");
  return {
    links: linkNames(netns),
    routes: ipJson(netns, "-4", "route", "show", "table", "all")
      .map(({ dst, dev }: Json) => `${dst} ${dev}`),
    rules: actingRules(netns).filter((rule) => !STAYING_RULES.test(rule)),
    sandboxes: (await listSandboxes(node)).map(({ path }) => path),
    files: files.filter((path) => !STAYING.test(path)),
  };
}

/** Deletes all workloads and pods of the default namespace, and waits until nodes have no trace of them. */
export async function removeAll(
  cluster: Cluster,
  before: readonly Traces[],
): Promise<void> {
  const { api } = cluster;
  api.kubectl(
    "delete",
    "deployments,statefulsets,pods",
    "--all",
    "--wait=false",
  );
  let found: Traces[] = [];
  await until("pods have left nothing", async () => {
    if (api.get("pods").items.length > 0) return false;
    found = await Promise.all(cluster.nodes.map(readTraces));
    return JSON.stringify(found) === JSON.stringify(before);
  }, () => `${JSON.stringify(found)} is not ${JSON.stringify(before)}`);
}
