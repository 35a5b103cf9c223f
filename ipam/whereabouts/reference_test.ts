/** This whereabouts and upstream whereabouts on the same real API server. */

import { assert, assertEquals } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import type { IpPool } from "./objects.ts";
import { eachAtOnce } from "../../tests/_harness/repetition.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { runCni } from "../../tests/_harness/tool_call.ts";
import {
  NAMESPACE,
  needsSharedCluster,
  other,
  reconcile,
  RESERVATIONS,
  SharedCluster,
  type Side,
  SIDES,
  SLICED,
  sliceNodes,
} from "./testing/cluster.ts";

/** Configurations that both must serve alike, and the address of a first pod. */
const ALIKE: readonly (readonly [JsonObject, ...string[]])[] = [
  [{ range: "10.0.0.0/24" }, "10.0.0.1/24"],
  [{ range: "10.0.5.9/16", network_name: "blue" }, "10.0.0.1/16"],
  [{ range: "10.1.0.5-10.1.0.9/24" }, "10.1.0.5/24"],
  [{ range: "10.2.0.0/24", exclude: ["10.2.0.0/28"] }, "10.2.0.16/24"],
  [{ range: "fd00::/64" }, "fd00::1/64"],
  [{ range: "2001:db8:5422:5::/112" }, "2001:db8:5422:5::1/112"],
  [
    { range: "10.3.0.0/29", ipRanges: [{ range: "fd03::/120" }] },
    "10.3.0.1/29",
    "fd03::1/120",
  ],
  [{ range: "10.4.0.0/24", enable_overlapping_ranges: false }, "10.4.0.1/24"],
];

Deno.test({
  name: "whereabouts and upstream whereabouts share the pools of a cluster" +
    needsSharedCluster.suffix,
  ignore: needsSharedCluster.ignore,
  fn: async (t) => {
    await using cluster = await SharedCluster.start();
    const { client } = cluster.server;
    await cluster.server.create("/api/v1/namespaces", {
      metadata: { name: "test" },
    });

    await t.step("both write equal objects", async () => {
      const written = new Map<Side, unknown>();
      for (const side of SIDES) {
        for (const [ipam, ...expected] of ALIKE) {
          assertEquals(await cluster.add(side, ipam, { pod: "p" }), expected);
        }
        written.set(side, await cluster.content());
        await cluster.clear();
      }
      assertEquals(written.get("ours"), written.get("reference"));
    });

    for (const side of SIDES) {
      await t.step(`the pools of ${side} are continued`, async () => {
        const next = other(side);
        for (const [ipam, ...expected] of ALIKE) {
          const old = { pod: "p", id: "old" };
          await cluster.add(side, ipam, old);
          // A new sandbox keeps the address, and DEL of the old sandbox runs late.
          assertEquals(await cluster.add(next, ipam, { pod: "p" }), expected);
          await cluster.del(side, ipam, old);
          assertEquals(await cluster.add(side, ipam, { pod: "p" }), expected);
          const [second] = await cluster.add(next, ipam, { pod: "q" });
          assert(second !== expected[0]);
          await cluster.del(next, ipam, { pod: "p" });
          await cluster.del(side, ipam, { pod: "q" });
        }
        for (const [name, spec] of Object.entries(await cluster.content())) {
          const { allocations } = spec as IpPool["spec"];
          assertEquals(allocations, {}, name);
        }
      });
    }

    await t.step("both write to one pool at the same time", async () => {
      const ipam = { range: "10.9.0.0/24" };
      const pods = Array.from({ length: 24 }, (_, index) => ({
        side: SIDES[index % 2] ?? "ours",
        call: { pod: `both-${index}` },
      }));
      const found: string[] = [];
      await eachAtOnce(pods, 8, async ({ side, call }) => {
        found.push(...await cluster.add(side, ipam, call));
      });
      assertEquals(new Set(found).size, pods.length);
      const allocations = await cluster.allocations("10.9.0.0-24");
      assertEquals(
        Object.values(allocations).map(({ podref }) => podref).sort(),
        pods.map(({ call }) => `test/${call.pod}`).sort(),
      );
      // The other implementation's DEL.
      await eachAtOnce(pods, 8, async ({ side, call }) => {
        await cluster.del(other(side), ipam, call);
      });
      assertEquals(await cluster.allocations("10.9.0.0-24"), {});
      assertEquals((await client.list(RESERVATIONS)).items, []);
    });

    for (const side of SIDES) {
      await t.step(
        `an address that ${side} has reserved is taken`,
        async () => {
          const wide = { range: "10.10.0.0/16" };
          const narrow = { range: "10.10.0.0/24" };
          const next = other(side);
          const a = { pod: `${side}-a` }, b = { pod: `${side}-b` };
          const [first] = await cluster.add(side, wide, a);
          const [second] = await cluster.add(next, narrow, b);
          assertEquals([first, second], ["10.10.0.1/16", "10.10.0.2/24"]);
          await cluster.del(next, wide, a);
          await cluster.del(side, narrow, b);
          assertEquals((await client.list(RESERVATIONS)).items, []);
        },
      );
    }

    await t.step("neither reconciler removes an address in use", async () => {
      const ipam = { range: "10.11.0.0/24" };
      for (const side of SIDES) {
        const [address = ""] = await cluster.add(side, ipam, { pod: side });
        await cluster.createPod(side, [address.split("/")[0] ?? ""]);
        await cluster.add(side, ipam, { pod: `gone-${side}` });
      }
      const { exitCode } = await runCni(
        "cluster-gc",
        "--kubeconfig",
        await cluster.server.kubeconfigOf(NAMESPACE, "cni-cluster-gc"),
        "--namespace",
        NAMESPACE,
        "--yes",
        "--grace",
        "0",
      );
      assertEquals(exitCode, 0);
      const podrefs = async (): Promise<string[]> =>
        Object.values(await cluster.allocations("10.11.0.0-24"))
          .map(({ podref }) => podref).sort();
      assertEquals(await podrefs(), ["test/ours", "test/reference"]);
      const before = await cluster.content();
      await cluster.add("ours", ipam, { pod: "gone" });
      await reconcile(cluster.server, async () => {
        await eventually("the reconciler removes what is stale", async () => {
          const { items = [] } = await client.list(RESERVATIONS);
          return items.length === 2;
        });
      });
      assertEquals(await cluster.content(), before);
    });

    await t.step(
      "ADD allocates from the slices of the upstream controller",
      async () => {
        const slices = await sliceNodes(cluster.server);
        assertEquals(slices.size, 2);
        for (const [node, slice] of slices) {
          const env = { NODENAME: node };
          const pool = `${node}-${slice.replace("/", "-")}`;
          for (const side of SIDES) {
            await cluster.add(side, SLICED, { pod: `${node}-${side}`, env });
          }
          const own = await cluster.allocations(pool);
          assertEquals(Object.keys(own), ["1", "2"]);
          for (const side of SIDES) {
            const call = { pod: `${node}-${side}`, env };
            await cluster.del(other(side), SLICED, call);
          }
          assertEquals(await cluster.allocations(pool), {});
        }
      },
    );
  },
});
