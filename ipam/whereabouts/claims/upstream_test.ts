/** IPAMClaims in pools that the reference uses and cleans up, on a real API server. */

import { assert, assertEquals } from "@std/assert";
import { pause } from "../../../base/deadline.ts";
import type { IpPool, Reservation } from "../objects.ts";
import {
  eachAtOnce,
  howOften,
  isLong,
} from "../../../tests/_harness/repetition.ts";
import { eventually } from "../../../tests/_harness/eventually.ts";
import { withClaim } from "../testing/claims.ts";
import { createAll } from "../../../tests/_harness/kube_apiserver.ts";
import { runCni } from "../../../tests/_harness/tool_call.ts";
import {
  GROUP,
  NAMESPACE,
  needsSharedCluster,
  type PodCall,
  RESERVATIONS,
  SharedCluster,
  whileReconciling,
} from "../testing/cluster.ts";

const CLAIMS = "/apis/k8s.cni.cncf.io/v1alpha1/namespaces/test/ipamclaims";
const RANGE = { range: "10.0.0.0/24" };
const POOL = "10.0.0.0-24";
/** How many claims have pods that are restarted, and how often each. */
const COUNT = isLong ? 100 : 12;
const ROUNDS = Math.ceil(howOften(180) / COUNT);

/** Reads the address of a claim. */
async function addressOf(
  cluster: SharedCluster,
  name: string,
): Promise<string> {
  const { status } = await cluster.server.client.request<
    { status?: { ips?: string[] } }
  >({ path: `${CLAIMS}/${name}` });
  return status?.ips?.join() ?? "";
}

Deno.test({
  name:
    "IPAMClaims keep their addresses alongside upstream whereabouts and its reconciler" +
    needsSharedCluster.suffix,
  ignore: needsSharedCluster.ignore,
  fn: async (t) => {
    await using cluster = await SharedCluster.start();
    const { server } = cluster;
    const { client } = server;
    await server.create("/api/v1/namespaces", { metadata: { name: "test" } });
    await server.create("/api/v1/nodes", { metadata: { name: "node1" } });
    const nads = new URL("../../../deploy/multus/crd.yaml", import.meta.url);
    await createAll(server, await Deno.readTextFile(nads));
    const names = Array.from({ length: COUNT }, (_, index) => `vm-${index}`);
    await eventually("claims are served", async () => {
      return await server.create(CLAIMS, {
        apiVersion: "k8s.cni.cncf.io/v1alpha1",
        kind: "IPAMClaim",
        metadata: { name: "probe" },
        spec: { network: "net", interface: "" },
      }).then(() => true, () => false);
    });
    for (const name of names) {
      await server.create(CLAIMS, {
        apiVersion: "k8s.cni.cncf.io/v1alpha1",
        kind: "IPAMClaim",
        metadata: { name },
        spec: { network: "net", interface: "" },
      });
    }
    const callOf = (name: string, pod: string): PodCall =>
      withClaim(name, { pod }) as PodCall;
    const first = new Map<string, string>();

    await t.step("first ADDs at the same time", async () => {
      await eachAtOnce(names, COUNT, async (name) => {
        first.set(
          name,
          `${await cluster.add("ours", RANGE, callOf(name, name))}`,
        );
      });
      assertEquals(new Set(first.values()).size, COUNT);
      for (const name of names) {
        assertEquals(await addressOf(cluster, name), first.get(name));
        await cluster.del("ours", RANGE, callOf(name, name));
      }
    });

    await t.step("pods restart while the reconciler runs", async () => {
      let changed = 0;
      await whileReconciling(
        server,
        ["reconciler", "controlloop"],
        async () => {
          for (let round = 0; round < ROUNDS; round++) {
            const others = Array.from({ length: 4 }, (_, index) => ({
              pod: `other-${round}-${index}`,
            }));
            await eachAtOnce(others, 4, async (call) => {
              // It gives up after ten seconds, which may pass on a busy machine.
              await cluster.call("reference", "ADD", RANGE, call);
            });
            await eachAtOnce(names, 4, async (name) => {
              const call = callOf(name, `${name}-${round}`);
              const found = `${await cluster.add("ours", RANGE, call)}`;
              if (found !== first.get(name)) changed++;
              if (round % 3) await cluster.del("ours", RANGE, call);
            });
            await eachAtOnce(
              others,
              4,
              (call) => cluster.del("reference", RANGE, call),
            );
          }
          await eventually(
            "it has deleted the claims' reservations",
            async () => {
              const { items = [] } = await client.list<Reservation>(
                RESERVATIONS,
              );
              return items.length === COUNT &&
                items.every(({ metadata }) => metadata?.deletionTimestamp);
            },
          );
          // And once more, now that they are being deleted.
          await pause(3000);
        },
      );
      assertEquals(changed, 0);
      const records = Object.values(await cluster.allocations(POOL));
      assertEquals(records.length, COUNT);
      assert(records.every(({ id }) => id.startsWith("ipamclaim/test/vm-")));
      // Each was made once, and the reference has kept the counts.
      const { metadata } = await client.request<IpPool>({
        path: `${GROUP}/namespaces/${NAMESPACE}/ippools/${POOL}`,
      });
      const counts = Object.values(metadata?.annotations ?? {}).map(Number);
      assertEquals(counts.reduce((all, count) => all + count, 0), COUNT);
    });

    await t.step(
      "cluster-gc restores the claims' reservations",
      async () => {
        const kubeconfig = await server.kubeconfigOf(
          NAMESPACE,
          "cni-cluster-gc",
        );
        const { exitCode, stdout, stderr } = await runCni(
          "cluster-gc",
          "--kubeconfig",
          kubeconfig,
          "--namespace",
          NAMESPACE,
          ...["--yes", "--grace", "0", "--json"],
        );
        assertEquals(exitCode, 0, stderr);
        const held = [...first.values()].map((one) => one.split("/")[0]).sort();
        assertEquals(JSON.parse(stdout).renewed.sort(), held);
        const { items = [] } = await client.list<Reservation>(RESERVATIONS);
        assertEquals(items.length, COUNT);
        assertEquals(
          items.filter(({ metadata }) => metadata?.deletionTimestamp),
          [],
        );
      },
    );

    await t.step("upstream allocates no address of a claim", async () => {
      const narrow = { range: "10.0.0.0/28" };
      const held = new Set([...first.values()].map((one) => one.split("/")[0]));
      const free = Array.from({ length: 14 }, (_, index) => index + 1)
        .filter((octet) => !held.has(`10.0.0.${octet}`));
      for (const octet of free) {
        const [address = ""] = await cluster.add("reference", narrow, {
          pod: `narrow-${octet}`,
        });
        assert(!held.has(address.split("/")[0]), address);
      }
      const call = { pod: "narrow" };
      const { exitCode } = await cluster.call("reference", "ADD", narrow, call);
      assertEquals(exitCode, 1);
    });

    await t.step("cluster-gc releases deleted claims", async () => {
      for (const name of names) {
        await client.request({ method: "DELETE", path: `${CLAIMS}/${name}` });
      }
      const kubeconfig = await server.kubeconfigOf(NAMESPACE, "cni-cluster-gc");
      const { exitCode } = await runCni(
        "cluster-gc",
        "--kubeconfig",
        kubeconfig,
        "--namespace",
        NAMESPACE,
        ...["--yes", "--grace", "0"],
      );
      assertEquals(exitCode, 0);
      assertEquals(await cluster.allocations(POOL), {});
      const { items = [] } = await client.list<Reservation>(RESERVATIONS);
      assertEquals(items.filter(({ spec }) => spec.podref === ""), []);
    });
  },
});
