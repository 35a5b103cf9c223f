/**
 * whereabouts and `cni cluster-gc` in the life of a cluster, as the end-to-end
 * tests of the reference and those of its reconciler have it.
 *
 * Source: github.com/k8snetworkplumbingwg/whereabouts v0.9.4 e2e,
 * pkg/reconciler. Differs on purpose: a pending pod without a network status
 * keeps its address, and so does a pod with a default network only.
 */

import { assertEquals, assertMatch } from "@std/assert";
import type { Allocation } from "./objects.ts";
import { conformance, type Row } from "../../tests/_harness/conformance.ts";
import { runCni } from "../../tests/_harness/tool_call.ts";
import { WhereaboutsScene } from "./testing/scene.ts";

/** A row with a cluster of its own. */
function inCluster(run: (scene: WhereaboutsScene) => Promise<void>): Row {
  return async () => {
    await using scene = await WhereaboutsScene.start();
    await run(scene);
  };
}

const RANGE = { range: "10.0.0.0/24" };
const POOL = "10.0.0.0-24";

function record(pod: string, ifname = "net1", id = `id-${pod}`): Allocation {
  return { id, podref: `test/${pod}`, ifname };
}

function keys(scene: WhereaboutsScene, pool = POOL): string[] {
  return Object.keys(scene.allocations(pool) ?? {});
}

const NAMES = Array.from({ length: 6 }, (_, index) => `web-${index}`);

conformance("whereabouts e2e", {
  "three interfaces of one network have a record and a reservation each":
    inCluster(async (scene) => {
      const names = ["net1", "net2", "net3"];
      for (const ifName of names) await scene.add(RANGE, { ifName });
      assertEquals(
        scene.allocations(POOL),
        Object.fromEntries(
          names.map((name, index) => [index + 1, record("p1", name)]),
        ),
      );
      assertEquals(scene.reservations(), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
      for (const ifName of names) await scene.del(RANGE, { ifName });
      assertEquals([keys(scene), scene.reservations()], [[], []]);
    }),
  "three ranges give three addresses in order": inCluster(async (scene) => {
    const ipam = {
      ...RANGE,
      ipRanges: [{ range: "fd00::/64" }, { range: "10.1.0.0/24" }],
    };
    assertEquals(await scene.add(ipam), [
      "10.0.0.1/24",
      "fd00::1/64",
      "10.1.0.1/24",
    ]);
    await scene.del(ipam);
    assertEquals(scene.reservations(), []);
    for (const pool of scene.names("ippools")) {
      assertEquals(scene.allocations(pool), {});
    }
  }),
  "the pool follows a scaled StatefulSet": inCluster(async (scene) => {
    let running = 0;
    for (const size of [6, 4, 6, 1, 6, 0]) {
      for (; running < size; running++) {
        await scene.add(RANGE, { pod: NAMES[running] ?? "" });
      }
      for (; running > size; running--) {
        await scene.del(RANGE, { pod: NAMES[running - 1] ?? "" });
      }
      assertEquals(keys(scene).length, size);
      assertEquals(scene.reservations().length, size);
    }
  }),
  "a full /30 refuses a third pod, and a pod that comes back keeps its address":
    inCluster(async (scene) => {
      const ipam = { range: "10.3.0.0/30" };
      const pool = "10.3.0.0-30";
      await scene.add(ipam, { pod: "web-0" });
      await scene.add(ipam, { pod: "web-1" });
      const { code, msg } = await scene.failure(ipam, { pod: "web-2" });
      assertEquals(code, 11);
      assertMatch(msg, /Could not allocate IP in range/);
      // Removed by force: no DEL, and the next sandbox has another ID.
      const again = { pod: "web-1", id: "new" };
      assertEquals(await scene.add(ipam, again), ["10.3.0.2/30"]);
      assertEquals(scene.allocations(pool), {
        "1": record("web-0"),
        "2": record("web-1", "net1", "new"),
      });
    }),
  "a named network allocates its addresses independently": inCluster(
    async (scene) => {
      const blue = { ...RANGE, network_name: "blue" };
      const narrow = { range: "10.0.0.0/28", network_name: "blue" };
      assertEquals(await scene.add(RANGE), ["10.0.0.1/24"]);
      assertEquals(await scene.add(blue), ["10.0.0.1/24"]);
      assertEquals(await scene.add(narrow, { pod: "p2" }), ["10.0.0.2/28"]);
      assertEquals(scene.reservations(), [
        "10.0.0.1",
        "blue-10.0.0.1",
        "blue-10.0.0.2",
      ]);
    },
  ),
  "DEL releases both records of a pod's interface": inCluster(async (scene) => {
    scene.putPool(POOL, RANGE.range, {
      "1": record("p1"),
      "2": record("p1"),
      "3": record("p2"),
    });
    await scene.del(RANGE);
    assertEquals(keys(scene), ["3"]);
  }),
});

/** Runs cluster-gc on a pool with an address for each of these pods. */
function keeps(
  pods: Readonly<Record<string, { phase: string; status?: string } | null>>,
  expected: readonly string[],
): Row {
  return inCluster(async (scene) => {
    const names = Object.keys(pods);
    scene.putPool(
      "fd00---64",
      "fd00::/64",
      Object.fromEntries(names.map((pod, index) => [index + 1, record(pod)])),
    );
    for (const [index, name] of names.entries()) {
      scene.putReservation(`fd00--${index + 1}`, `test/${name}`, "net1");
      const pod = pods[name];
      if (!pod) continue;
      const annotations = pod.status === undefined
        ? {}
        : { "k8s.v1.cni.cncf.io/network-status": pod.status };
      scene.api.putPod({
        metadata: { name, namespace: "test", annotations },
        status: { phase: pod.phase },
      });
    }
    const flags = ["--kubeconfig", scene.kubeconfig, "--yes", "--grace", "0"];
    const { exitCode, stdout } = await runCni("cluster-gc", ...flags);
    assertEquals(exitCode, 0, stdout);
    const left = Object.values(scene.allocations("fd00---64") ?? {})
      .map(({ podref }) => podref.replace("test/", ""));
    assertEquals(left, expected);
    assertEquals(scene.reservations().length, expected.length);
  });
}

const status = (...ips: string[]): string =>
  JSON.stringify(
    ips.map((ip) => ({ name: "test/net", interface: "net1", ips: [ip] })),
  );
const RUNNING = { phase: "Running" };

conformance("whereabouts reconciler", {
  "the address of a dead pod is released": keeps({ a: null }, []),
  "of two pods, only the dead one's address is released": keeps({
    a: { ...RUNNING, status: status("fd00::1") },
    b: null,
  }, ["a"]),
  "no record is released if all pods run": keeps({
    a: { ...RUNNING, status: status("fd00::1") },
    b: { ...RUNNING, status: status("10.9.9.9", "fd00::2") },
  }, ["a", "b"]),
  "a missing, empty or malformed network status is ignored": keeps(
    {
      a: RUNNING,
      b: { ...RUNNING, status: "[]" },
      c: { ...RUNNING, status: "{" },
      d: { ...RUNNING, status: "null" },
      e: { ...RUNNING, status: '[{"name":"x"}]' },
      f: { ...RUNNING, status: '[null,{"ips":"x"},{"ips":null}]' },
    },
    ["a", "b", "c", "d", "e", "f"],
  ),
  "differs: a pending pod without an address keeps its record": keeps(
    { a: { phase: "Pending" } },
    ["a"],
  ),
  "differs: an address of the default network is kept": keeps({
    a: {
      ...RUNNING,
      status: '[{"name":"main","default":true,"ips":["fd00::1"]}]',
    },
  }, ["a"]),
  "differs: a reservation of a named network is kept": inCluster(
    async (scene) => {
      const ipam = { ...RANGE, network_name: "blue" };
      await scene.add(ipam);
      scene.api.putPod({ metadata: { name: "p1", namespace: "test" } });
      const flags = ["--kubeconfig", scene.kubeconfig, "--yes"];
      await runCni("cluster-gc", ...flags);
      assertEquals(scene.reservations(), ["blue-10.0.0.1"]);
    },
  ),
});
