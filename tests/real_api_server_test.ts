/**
 * The executables and the manifests of deploy/ with a real kube-apiserver: what
 * the API server of the tests may get wrong.
 */

import { assertEquals, assertMatch } from "@std/assert";
import type { JsonObject } from "../base/json/json.ts";
import { createLog } from "../base/log/log.ts";
import { ClaimReleaser, ResidentClients } from "../ipam/whereabouts/daemon.ts";
import type { NetNs } from "../ffi/netns.ts";
import type { IpamClaim } from "../ipam/whereabouts/claims/ipam_claim.ts";
import type { Reservation } from "../ipam/whereabouts/objects.ts";
import { allOf } from "../testing/capabilities.ts";
import { execIn, type ExecOutput } from "../testing/exec_in.ts";
import { ipJson } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { patchJson } from "../kube/write.ts";
import { CHART, HELM, needsHelm, render, template } from "./_harness/helm.ts";
import { eventually } from "./_harness/eventually.ts";
import { withClaim } from "../ipam/whereabouts/testing/claims.ts";
import { needsApiServer } from "./_harness/kube_apiserver.ts";
import { MultusDaemon } from "../plugins/multus/testing/daemon.ts";
import { BIN, hostTest } from "../plugins/multus/testing/host.ts";
import { needsKubectl, RealApiServer } from "./_harness/real_api_server.ts";
import { spawnIn } from "./_harness/spawn_in.ts";
import {
  NAMESPACE,
  type PodCall,
  POOLS,
  RESERVATIONS,
  SharedCluster,
} from "../ipam/whereabouts/testing/cluster.ts";

const DEPLOY = new URL("../deploy/", import.meta.url).pathname;
const ANNOTATION = "k8s.v1.cni.cncf.io/networks";

/** A pod of the API server, and its sandbox. */
interface Pod {
  readonly name: string;
  readonly uid: string;
  readonly sandbox: NetNs;
}

// deno-lint-ignore no-explicit-any -- as kubectl prints it
type Manifest = any;

const PATH = "/usr/sbin:/usr/bin:/sbin:/bin";

/** How many pods start at the same time. */
const BURST = Number(Deno.env.get("CNI_STRESS") ?? 40);

function assertSucceeded(
  command: string,
  { code, stdout, stderr }: ExecOutput,
): void {
  assertEquals([code, stderr], [0, ""], `${command}: ${stdout}`);
}

/** A node of a cluster. */
class Node {
  readonly hosts: TestHosts;
  readonly api: RealApiServer;
  /** With the rights of deploy/multus. */
  readonly kubeconfig: string;

  constructor(hosts: TestHosts, api: RealApiServer) {
    this.hosts = hosts;
    this.api = api;
    this.kubeconfig = api.kubeconfigOf("multus");
    const kubeconfig = api.kubeconfigOf("whereabouts");
    api.apply(
      definition("green", {
        type: "ptp",
        ipam: hosts.hostLocal("10.20.0.0/16"),
      }),
      definition("wide", {
        type: "ptp",
        ipam: {
          type: "whereabouts",
          range: "10.30.0.0/24",
          dataDir: `${hosts.directory}/allocations`,
          kubernetes: { kubeconfig },
        },
      }),
    );
  }

  /** Creates a pod of the node. */
  addPod(name: string, networks: string): Pod {
    const [pod] = this.addPods([name], networks);
    if (pod === undefined) throw new Error(`${name} was not created`);
    return pod;
  }

  /** Creates pods of the node. */
  addPods(names: readonly string[], networks: string): Pod[] {
    this.api.apply(...names.map((name) => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name,
        namespace: "default",
        annotations: { [ANNOTATION]: networks },
      },
      spec: { nodeName: "node1", containers: [{ name: "c", image: "none" }] },
    })));
    const { items } = this.api.get("pods");
    return items.map(({ metadata: { name, uid } }: Manifest) => ({ name, uid }))
      .filter(({ name }: Pod) => names.includes(name))
      .map((pod: Pod) => ({ ...pod, sandbox: this.hosts.addNetns() }));
  }

  /** Runs multus for a pod; it must succeed. */
  call(command: string, pod: Pod, keys: JsonObject = {}): void {
    const { env, config } = this.#input(command, pod, keys);
    const output = this.run(`${BIN}/multus`, [], env, config);
    assertSucceeded(command, output);
  }

  /** Runs multus for many pods at the same time; it must succeed. */
  async callAll(
    command: string,
    pods: readonly Pod[],
    keys: JsonObject = {},
  ): Promise<void> {
    const running = pods.map((pod) => {
      const { env, config } = this.#input(command, pod, keys);
      const stdin = JSON.stringify(config);
      const input = { path: `${BIN}/multus`, env: { PATH, ...env }, stdin };
      return spawnIn(this.hosts.host, input).output;
    });
    for (const output of await Promise.all(running)) {
      assertSucceeded(command, output);
    }
  }

  #input(command: string, pod: Pod, keys: JsonObject): {
    readonly env: Record<string, string>;
    readonly config: JsonObject;
  } {
    const { hosts } = this;
    const env = {
      CNI_COMMAND: command,
      CNI_CONTAINERID: `sandbox-of-${pod.name}`,
      CNI_NETNS: pod.sandbox.path,
      CNI_IFNAME: "eth0",
      CNI_PATH: BIN,
      CNI_ARGS:
        `IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=${pod.name};` +
        `K8S_POD_UID=${pod.uid};K8S_POD_INFRA_CONTAINER_ID=sandbox-of-${pod.name}`,
    };
    const config = {
      cniVersion: "1.0.0",
      name: "multus-cni-network",
      type: "multus",
      kubeconfig: this.kubeconfig,
      cniDir: `${hosts.directory}/multus`,
      binDir: BIN,
      confDir: `${hosts.directory}/net.d`,
      daemonSocketDir: `${hosts.directory}/none`,
      definitionKeys: [
        "host-local.dataDir",
        "whereabouts.dataDir",
        "whereabouts.kubeconfig",
      ],
      delegates: [{
        cniVersion: "1.0.0",
        name: "pods",
        plugins: [{ type: "ptp", ipam: hosts.hostLocal("10.10.0.0/16") }],
      }],
      ...command === "CHECK" && { prevResult: { cniVersion: "1.0.0" } },
      ...keys,
    };
    return { env, config };
  }

  /** Runs a program on the node. */
  run(
    path: string,
    args: readonly string[],
    env: Record<string, string> = {},
    stdin: JsonObject = {},
  ): ExecOutput {
    return execIn(this.hosts.host, {
      path,
      args,
      env: { PATH, ...env },
      stdin: JSON.stringify(stdin),
    });
  }

  /** Checks that a pod has its networks, and that its status says so. */
  assertAttached(pod: Pod, expected: Readonly<Record<string, string>>): void {
    const { annotations } = this.api.get("pod", pod.name).metadata;
    const status = JSON.parse(annotations[`k8s.v1.cni.cncf.io/network-status`]);
    assertEquals(
      status.map(({ name, interface: ifName }: JsonObject) => [ifName, name]),
      Object.entries(expected),
    );
    for (const { interface: ifName, mac, ips } of status) {
      const [link] = ipJson(pod.sandbox, "address", "show", "dev", ifName);
      const addresses = link.addr_info
        .filter(({ family }: { family: string }) => family === "inet")
        .map(({ local }: { local: string }) => local);
      assertEquals([link.address, addresses], [mac, ips]);
    }
  }

  /** Lists the pods with an address in the pool. */
  listAllocations(): string[] {
    const [pool] = this.api.get("ippools", "-n", "kube-system").items;
    return Object.values<{ podref: string }>(pool.spec.allocations)
      .map(({ podref }) => podref);
  }

  /** Lists links, leases and files of pods on the node. */
  remains(): string[] {
    const links = ipJson(this.hosts.host, "link")
      .map(({ ifname }: { ifname: string }) => ifname);
    const leases = ["pods", "green"].flatMap((name) => this.hosts.leases(name));
    return [...links.filter((name: string) => name !== "lo"), ...leases];
  }
}

function definition(name: string, plugin: JsonObject): JsonObject {
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace: "default" },
    spec: { config: JSON.stringify({ cniVersion: "1.0.0", name, ...plugin }) },
  };
}

/** Applies every manifest: what the tests need for real, the rest as a dry run. */
function applyManifests(api: RealApiServer, directory: string): void {
  const apply = (...args: string[]): string =>
    api.kubectl("apply", "--server-side", "--warnings-as-errors", ...args);
  const { code } = new Deno.Command("cp", {
    args: ["-r", `${DEPLOY}multus`, directory],
  }).outputSync();
  assertEquals(code, 0);
  const kustomization = `${directory}/multus/kustomization.yaml`;
  Deno.writeTextFileSync(kustomization, "\ncomponents: [daemon]\n", {
    append: true,
  });
  apply("-k", `${directory}/multus`);
  apply("-k", `${DEPLOY}whereabouts`);
  const files = ["multus/uninstall", "plugins/daemonset", "plugins/uninstall"];
  apply("--dry-run=server", ...files.map((name) => `-f${DEPLOY}${name}.yaml`));
  apply("--dry-run=server", "-k", `${DEPLOY}daemon`);
}

const CHART_VALUES = {
  daemon: { dhcp: true },
  multus: { enabled: true, daemon: { enabled: true } },
  whereabouts: { enabled: true, asMultus: true },
};

hostTest(
  "a real API server accepts all objects of the chart",
  allOf(needsKubectl, needsHelm),
  async () => {
    using hosts = TestHosts.create();
    await using api = await RealApiServer.start(hosts);
    const { stdout } = template(CHART_VALUES);
    const file = `${hosts.directory}/chart.yaml`;
    await Deno.writeTextFile(file, stdout);
    const flags = ["--server-side", "--warnings-as-errors", "-o", "name"];
    const applied = api.kubectl(
      "apply",
      "--dry-run=server",
      ...flags,
      "-f",
      file,
    );
    const { objects, hooks } = render(CHART_VALUES);
    const count = applied.trim().split("\n").length;
    assertEquals(count, objects.length + hooks.length);
  },
);

hostTest(
  "a real API server: helm uninstall repeats an unfinished clean-up",
  allOf(needsKubectl, needsHelm),
  async () => {
    using hosts = TestHosts.create();
    await using api = await RealApiServer.start(hosts);
    const off = "--set=plugins.enabled=false,daemon.enabled=false";
    const helm = (
      expected: number,
      ...flags: readonly string[]
    ): ExecOutput => {
      const output = execIn(hosts.host, {
        path: HELM ?? "",
        args: [
          ...["template", "cni", CHART, "--namespace=kube-system"],
          ...["--dry-run=server", "--is-upgrade", ...flags],
          `--kubeconfig=${api.programs.kubeconfig}`,
        ],
        env: { PATH, HOME: hosts.directory },
        stdin: "",
      });
      assertEquals(output.code, expected, output.stderr);
      return output;
    };
    assertEquals(helm(0, off).stdout.trim(), "");
    api.kubectl("apply", "-f", `${DEPLOY}plugins/uninstall.yaml`);
    const { stdout } = helm(0, off);
    assertMatch(stdout, /^kind: DaemonSet$/m);
    assertMatch(stdout, /helm.sh\/hook: post-upgrade,post-rollback/);
    const { stderr } = helm(1);
    assertMatch(stderr, /delete daemonset cni-plugins-uninstall/);
  },
);

hostTest(
  "a real API server: pods are attached by a process and by the daemon",
  needsKubectl,
  async (t) => {
    using hosts = TestHosts.create();
    await using api = await RealApiServer.start(hosts);

    await t.step(
      "the API server accepts all manifests",
      () => applyManifests(api, hosts.directory),
    );

    const node = new Node(hosts, api);
    const web = node.addPod("web", "green,wide@net7");
    const networks = {
      eth0: "pods",
      net1: "default/green",
      net7: "default/wide",
    };

    await t.step("a process attaches with the manifests' rights", () => {
      node.call("ADD", web);
      node.assertAttached(web, networks);
      assertEquals(node.listAllocations(), ["default/web"]);
      const { items } = api.get("events");
      // The API server also reports its own service.
      const ofPods = items.filter(({ involvedObject: { kind } }: Manifest) =>
        kind === "Pod"
      );
      assertEquals(
        ofPods.map(({ reason }: { reason: string }) => reason),
        ["AddedInterface", "AddedInterface", "AddedInterface"],
      );
      node.call("CHECK", web);
      node.call("DEL", web);
      assertEquals([node.listAllocations(), node.remains()], [[], []]);
    });

    await using daemon = await MultusDaemon.start(node);
    const keys = { daemonSocketDir: daemon.socketDir };

    await t.step("the daemon attaches too", () => {
      node.call("ADD", web, keys);
      node.assertAttached(web, networks);
      node.call("CHECK", web, keys);
    });

    await t.step(
      "the daemon lists again after 410 Gone",
      async () => {
        daemon.signal("SIGSTOP");
        const late = node.addPod("late", "green");
        await api.restart();
        daemon.signal("SIGCONT");
        await eventually(
          "it has both pods",
          async () => await daemon.countPods() === 2,
        );
        await eventually("it watches", () => daemon.isWatching());
        assertMatch(daemon.log, /too old resource version/);
        node.call("ADD", late, keys);
        node.assertAttached(late, { eth0: "pods", net1: "default/green" });
        for (const pod of [web, late]) node.call("DEL", pod, keys);
        assertEquals([node.listAllocations(), node.remains()], [[], []]);
      },
    );

    await t.step("cluster-gc releases addresses of deleted pods", () => {
      const args = [
        "cluster-gc",
        `--kubeconfig=${api.kubeconfigOf("cni-cluster-gc")}`,
      ];
      node.call("ADD", web, keys);
      assertMatch(
        node.run(`${BIN}/cni`, args).stderr,
        /every address belongs to a pod/,
      );
      api.kubectl("delete", "pod", "web", "--force", "--grace-period=0");
      assertMatch(node.run(`${BIN}/cni`, args).stdout, /default\/web/);
      assertEquals(node.listAllocations(), ["default/web"]);
      const { code, stdout } = node.run(`${BIN}/cni`, [
        ...args,
        "--yes",
        "--grace=1s",
      ]);
      assertEquals([code, node.listAllocations()], [0, []], stdout);
      node.call("DEL", web, keys);
      assertEquals(node.remains(), []);
    });
  },
);

hostTest(
  `a real API server: ${BURST} pods at the same time`,
  needsKubectl,
  async (t) => {
    using hosts = TestHosts.create();
    await using api = await RealApiServer.start(hosts);
    applyManifests(api, hosts.directory);
    const node = new Node(hosts, api);
    const names = Array.from({ length: BURST }, (_, at) => `web-${at}`);
    const pods = node.addPods(names, "green,wide@net7");
    const networks = {
      eth0: "pods",
      net1: "default/green",
      net7: "default/wide",
    };
    const attachAll = async (keys: JsonObject): Promise<void> => {
      const startMs = performance.now();
      await node.callAll("ADD", pods, keys);
      const addMs = performance.now();
      for (const pod of pods) node.assertAttached(pod, networks);
      const podrefs = pods.map(({ name }) => `default/${name}`);
      assertEquals(node.listAllocations().toSorted(), podrefs.toSorted());
      const delMs = performance.now();
      await node.callAll("DEL", pods, keys);
      const endMs = performance.now();
      assertEquals([node.listAllocations(), node.remains()], [[], []]);
      const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;
      console.log(
        `ADD ${seconds(addMs - startMs)}, DEL ${seconds(endMs - delMs)}`,
      );
    };

    await t.step("in processes", () => attachAll({}));
    await using daemon = await MultusDaemon.start(node);
    const keys = { daemonSocketDir: daemon.socketDir };
    await t.step("through the daemon", () => attachAll(keys));
  },
);

const CLAIMS = "/apis/k8s.cni.cncf.io/v1alpha1/namespaces/test/ipamclaims";

Deno.test({
  name: "IPAMClaims keep their sandbox, and several daemons release them" +
    needsApiServer.suffix,
  ignore: needsApiServer.ignore,
  fn: async () => {
    await using cluster = await SharedCluster.start();
    const { server, server: { client } } = cluster;
    await server.create("/api/v1/namespaces", { metadata: { name: "test" } });
    const path = `${CLAIMS}/vm`;
    await eventually("claims are served", () =>
      server.create(CLAIMS, {
        apiVersion: "k8s.cni.cncf.io/v1alpha1",
        kind: "IPAMClaim",
        metadata: { name: "vm" },
        spec: { network: "net", interface: "" },
      }).then(() => true, () => false));
    const find = (): Promise<IpamClaim> => client.request<IpamClaim>({ path });
    const range = { range: "10.0.0.0/24" };
    const callOf = (id: string): PodCall =>
      withClaim("vm", { pod: "db-0", id }) as PodCall;

    await cluster.add("ours", range, callOf("old"));
    await cluster.add("ours", range, callOf("next"));
    // Late, as of a node that was cut off.
    await cluster.del("ours", range, callOf("old"));
    assertEquals((await find()).status?.ownerPod, { name: "db-0" });
    await cluster.del("ours", range, callOf("next"));
    const { metadata, status } = await find();
    assertEquals(status?.ownerPod, undefined);

    const log = createLog({}, () => {});
    using clients = new ResidentClients(log);
    const releasers = Array.from({ length: 3 }, () =>
      new ClaimReleaser({
        clientOf: (kubeconfig) => clients.clientOf({ kubeconfig, env: {} }),
        log,
        checkMs: 100,
      }));
    const claim = {
      namespace: "test",
      name: "vm",
      uid: metadata?.uid ?? "",
      ips: status?.ips ?? [],
      networkName: "",
      pools: NAMESPACE,
      // With the rights of the plugin on a node.
      kubeconfig: await server.kubeconfigOf(NAMESPACE, "whereabouts"),
    };
    for (const releaser of releasers) releaser.note(claim);
    const end = new AbortController();
    const running = Promise.all(releasers.map((one) => one.run(end.signal)));
    await client.request({ method: "DELETE", path });
    await eventually("released", () => releasers.every(({ size }) => !size));
    end.abort();
    await running;
    assertEquals(await cluster.allocations("10.0.0.0-24"), {});
    const { items = [] } = await client.list<Reservation>(RESERVATIONS);
    assertEquals(items, []);
  },
});

Deno.test({
  name: "a real API server can return only the metadata of a patched pool" +
    needsApiServer.suffix,
  ignore: needsApiServer.ignore,
  fn: async () => {
    await using cluster = await SharedCluster.start();
    await cluster.add("ours", { range: "10.0.0.0/24" }, { pod: "a", id: "a" });
    const path = `${POOLS}/10.0.0.0-24`;
    const operations = [
      { op: "add", path: "/metadata/labels", value: { a: "b" } },
    ] as const;
    const options = { onlyMetadata: true };
    const answer = await patchJson<JsonObject>(
      cluster.server.client,
      path,
      operations,
      options,
    );
    assertEquals(answer?.["kind"], "PartialObjectMetadata");
    assertEquals(Object.keys(answer ?? {}).toSorted(), [
      "apiVersion",
      "kind",
      "metadata",
    ]);
  },
});
