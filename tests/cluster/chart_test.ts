/**
 * deploy/chart on a cluster whose nodes have the Go plugins: installed, upgraded,
 * rolled back and removed by Helm, while pods run.
 */

import { assert, assertEquals } from "@std/assert";
import { allOf } from "../../testing/capabilities.ts";
import { execIn } from "../../testing/exec_in.ts";
import { CHART, needsHelm } from "../_harness/helm.ts";
import { BIN } from "../_harness/executables.ts";
import { type Image, listLibraries, writeImage } from "../_harness/image.ts";
import { DIRECTORY } from "../_harness/kube_apiserver.ts";
import { findTool, NEWEST_DIRECTORY } from "../_harness/peers.ts";
import { type Cluster, POD_IMAGE, ptpNetwork } from "./cluster.ts";
import { clusterTest, needsCluster } from "./cluster_test_case.ts";
import type { Node } from "./node.ts";
import { pod, settle, whileRolling, workload } from "./pods.ts";
import { containerd } from "./runtime.ts";
import { until } from "../_harness/eventually.ts";

const KUBECTL_IMAGE = "localhost/kubectl:1";
/** The version after this one, as far as the cluster can tell. */
const NEXT = "0.1.1-test";

const PLUGINS = "--set=plugins.only={ptp,host-local,portmap}";
const IMAGES = [
  `--set=cleanup.kubectl=${KUBECTL_IMAGE}`,
  `--set=cleanup.shell=${POD_IMAGE}`,
];

/** A cluster whose nodes have Go plugins, and the network of those. */
const OPTIONS = {
  nodes: 2,
  needs: allOf(needsCluster, needsHelm),
  network: ptpNetwork,
  prepare: async (node: Node): Promise<void> => {
    await node.get(`cp ${NEWEST_DIRECTORY}/* /opt/cni/bin`);
  },
};

clusterTest(
  "the chart restores nodes when it is uninstalled",
  OPTIONS,
  async (cluster, step) => {
    const { api } = cluster;
    await loadImages(cluster);
    /** Starts a pod on each node, and removes it. */
    const tryPods = async (): Promise<void> => {
      api.apply(
        ...cluster.nodes.map(({ name }) =>
          pod(`new-${name}`, { nodeName: name })
        ),
      );
      await settle(cluster);
      api.kubectl(
        "delete",
        "pod",
        ...cluster.nodes.map(({ name }) => `new-${name}`),
      );
      await settle(cluster);
    };

    // What Go plugins and the runtime leave by themselves counts as before.
    await tryPods();
    const before = await listAllFiles(cluster);
    assert(before[0]?.includes("/opt/cni/bin/ptp"));
    // Attached by the Go plugins, and there until the end.
    api.apply(
      ...cluster.nodes.map(({ name }) =>
        pod(`old-${name}`, { nodeName: name })
      ),
    );
    api.apply(workload("Deployment", "rolling", 6));
    await settle(cluster);

    await step("install", async () => {
      await whileRolling(cluster, "rolling", () => {
        helm(cluster, "install", "cni", CHART, PLUGINS, ...IMAGES);
        untilRolledOut(cluster, "cni-plugins");
      });
      await settle(cluster);
      await assertPlugins(cluster, `${BIN}/cni`, [
        "host-local",
        "portmap",
        "ptp",
      ]);
      await tryPods();
    });

    await step("upgrade to another build, with one more plugin", async () => {
      const more = "--set=plugins.only={ptp,host-local,portmap,bridge,vlan}";
      const tag = `--set=image.tag=${NEXT}`;
      await whileRolling(cluster, "rolling", () => {
        helm(cluster, "upgrade", "cni", CHART, more, tag, ...IMAGES);
        untilRolledOut(cluster, "cni-plugins");
      });
      await settle(cluster);
      const names = ["bridge", "host-local", "portmap", "ptp", "vlan"];
      await assertPlugins(cluster, nextOf(cluster), names);
      await tryPods();
    });

    await step("rollback", async () => {
      await whileRolling(cluster, "rolling", () => {
        helm(cluster, "rollback", "cni", "1");
        untilRolledOut(cluster, "cni-plugins");
      });
      await settle(cluster);
      await assertPlugins(cluster, `${BIN}/cni`, [
        "host-local",
        "portmap",
        "ptp",
      ]);
      await tryPods();
    });

    await step("multus is turned on, and off again", async () => {
      const values = [PLUGINS, ...IMAGES];
      const on = "--set=multus.enabled=true";
      helm(cluster, "upgrade", "cni", CHART, ...values, on);
      untilRolledOut(cluster, "kube-multus-ds");
      await settle(cluster);
      await until("nodes use multus", async () => {
        const found = await Promise.all(
          cluster.nodes.map((node) =>
            node.run("test -e /etc/cni/net.d/00-multus.conflist")
          ),
        );
        return found.every(({ code }) => code === 0);
      });
      await tryPods();
      helm(cluster, "upgrade", "cni", CHART, ...values);
      await tryPods();
      for (const node of cluster.nodes) {
        const left =
          "ls -A /etc/cni/net.d /opt/cni/bin | grep -i multus || true";
        assertEquals(await node.get(left), "");
      }
    });

    await step("uninstallation", async () => {
      helm(cluster, "uninstall", "cni");
      // Pods of its last DaemonSet end in their own time.
      let names: string[] = [];
      await until("no object is left", () => {
        const kinds = "all,serviceaccounts,roles,rolebindings";
        const { items } = api.get(kinds, "-n", "kube-system");
        names = items.map(({ metadata }: Named) => metadata.name)
          .filter((name: string) => /cni|multus|uninstall/.test(name));
        return names.length === 0;
      }, () => names.join(" "));
      await tryPods();
      // Go detaches them again.
      api.kubectl("delete", "deployments,pods", "--all");
      await settle(cluster);
      assertEquals(await listAllFiles(cluster), before);
    });
  },
);

/** An object of the API server. */
interface Named {
  readonly metadata: { readonly name: string };
}

/** Runs Helm as an administrator; it must succeed. */
function helm(cluster: Cluster, ...args: readonly string[]): void {
  const { host, directory } = cluster.hosts;
  const { kubeconfig } = cluster.api.programs;
  const flags = ["--namespace=kube-system", `--kubeconfig=${kubeconfig}`];
  const { code, stdout, stderr } = execIn(host, {
    path: findTool("helm") ?? "",
    args: [...args, ...flags, "--timeout=10m"],
    env: { PATH: "/usr/bin:/bin", HOME: directory },
    stdin: "",
  });
  assertEquals(code, 0, `helm ${args.join(" ")}: ${stdout}${stderr}`);
}

function untilRolledOut({ api }: Cluster, name: string): void {
  const args = ["-n", "kube-system", "rollout", "status", "--timeout=4m"];
  api.kubectl(...args, `daemonset/${name}`);
}

/** Checks that nodes have these plugins of an executable, and run its daemon. */
async function assertPlugins(
  cluster: Cluster,
  executable: string,
  names: readonly string[],
): Promise<void> {
  for (const node of cluster.nodes) {
    const links = await node.get(
      "cd /opt/cni/bin && find . -lname cni -printf '%f\\n' | sort",
    );
    assertEquals(links.trim().split("\n"), names);
    await node.get(`cmp ${executable} /opt/cni/bin/cni`);
    const status = await node.get("/opt/cni/bin/cni daemon status --json");
    assertEquals(JSON.parse(status).running, true);
  }
}

/** Where an executable of another build is. */
function nextOf({ hosts }: Cluster): string {
  return `${hosts.directory}/next/cni`;
}

/** Gives nodes the images of the next version, and of kubectl. */
async function loadImages(cluster: Cluster): Promise<void> {
  const { directory } = cluster.hosts;
  await Deno.mkdir(`${directory}/next`);
  const next = nextOf(cluster);
  await Deno.copyFile(`${BIN}/cni`, next);
  const script = `digest=$(grep -aoE '"[0-9a-f]{64}"' "$0" | head -n 1 |
    tr -d '"')
sed -i "s/$digest/$(echo $digest | rev)/g" "$0"`;
  const { success } = await new Deno.Command("sh", {
    args: ["-c", script, next],
  }).output();
  assert(success);
  const libraries = await listLibraries(next);
  const ours = (image: string, type: string): Image => ({
    name: `${image}:${NEXT}`,
    files: { [`/opt/cni/bin/${type}`]: next, ...libraries },
    entrypoint: [`/opt/cni/bin/${type}`],
  });
  const images: Image[] = [
    ours("cni-plugins", "cni"),
    ours("multus", "multus"),
    {
      name: KUBECTL_IMAGE,
      files: { "/bin/kubectl": `${DIRECTORY}/kubectl` },
      entrypoint: ["/bin/kubectl"],
    },
  ];
  for (const [at, image] of images.entries()) {
    const place = `${directory}/chart${at}`;
    await Deno.mkdir(place);
    const path = await writeImage(place, image);
    for (const node of cluster.nodes) await containerd.load(node, path);
  }
}

/**
 * Lists the files of each node that have to do with plugins, with mode and digest:
 * all but the directory of locks and the lock that daemons take turns by, which are
 * gone after a boot, and the number of the last address.
 */
async function listAllFiles({ nodes }: Cluster): Promise<string[]> {
  const places = "/opt/cni /etc/cni /var/lib/cni /run/cni /run/multus";
  return await Promise.all(nodes.map((node) =>
    node.get(`{
      find ${places} -printf '%y %m %p %l\\n'
      find ${places} -type f -exec md5sum {} +
    } 2>/dev/null | grep -vE '/run/cni( |/.lock|/locks )|[0-9a-f]{32} .*last_reserved' |
      sort`)
  ));
}
