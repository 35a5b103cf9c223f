/** whereabouts with the key `stay`: persistent addresses of StatefulSets and pod names. */

import { assert, assertEquals, assertMatch } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import { claimStatus, putRunningPod, setOf } from "./testing/claims.ts";
import {
  eachAtOnce,
  howOften,
  isLong,
} from "../../tests/_harness/repetition.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { runCni } from "../../tests/_harness/tool_call.ts";
import { type PodCall, WhereaboutsScene } from "./testing/scene.ts";

const POOL = "10.0.0.0-24";
const SET = { range: "10.0.0.0/24", stay: "statefulset" };
const NAMED = { range: "10.0.0.0/24", stay: "name", stayTime: "10s" };

/** How many pods of a StatefulSet are restarted, and how often each. */
const COUNT = isLong ? 100 : 30;
const ROUNDS = Math.ceil(howOften(120) / COUNT);

/** Returns a call for a pod of a StatefulSet, as our multus makes it. */
function ofSet(
  pod: string,
  { set = setOf("db"), ...call }: PodCall & { set?: ReturnType<typeof setOf> } =
    {},
): PodCall {
  const evidence = { uid: pod, labels: {}, controller: { ...set } };
  return {
    ...call,
    pod,
    conf: { "cni.dev/pod": evidence },
  };
}

function gc(
  { kubeconfig }: WhereaboutsScene,
  ...flags: string[]
): ReturnType<typeof runCni> {
  return runCni("cluster-gc", "--kubeconfig", kubeconfig, ...flags);
}

const NOW = ["--yes", "--grace", "0"];

/** Makes a claim's last pod have ended so many seconds ago. */
function age({ api }: WhereaboutsScene, name: string, seconds: number): void {
  const claim = api.find("ipamclaims", "test", name);
  const lastTransitionTime = new Date(Date.now() - seconds * 1000)
    .toISOString();
  const conditions = claim?.["status"].conditions.map((one: { type: string }) =>
    one.type === "cni.dev/Unused" ? { ...one, lastTransitionTime } : one
  );
  api.put("ipamclaims", {
    ...claim,
    metadata: { ...claim?.metadata, name },
    status: { ...claim?.["status"], conditions },
  });
}

Deno.test("whereabouts stay: a StatefulSet's pods keep their addresses", async () => {
  await using scene = await WhereaboutsScene.start();
  const first = new Map<string, string>();
  const pods = ["db-0", "db-1", "db-2"];
  for (const pod of pods) {
    first.set(pod, `${await scene.add(SET, ofSet(pod))}`);
  }
  const claim = scene.api.find("ipamclaims", "test", "db-0.net.net1");
  assertEquals(claim?.metadata["ownerReferences"], [setOf("db")]);
  assertEquals(claim?.["spec"], { network: "net", interface: "net1" });
  let changed = 0;
  for (let round = 0; round < 15; round++) {
    for (const pod of pods) await scene.del(SET, ofSet(pod, { id: `${pod}` }));
    const other = { pod: `other-${round}` };
    putRunningPod(scene, other.pod, { controller: setOf("x", "y") });
    await scene.add({ range: "10.0.0.0/24" }, other);
    for (const pod of pods.toReversed()) {
      const [address] = await scene.add(SET, ofSet(pod, { id: `${pod}` }));
      if (address !== first.get(pod)) changed++;
    }
  }
  assertEquals(changed, 0);
});

Deno.test("whereabouts stay: ADD without this project's multus reads the set from the pod", async () => {
  await using scene = await WhereaboutsScene.start();
  putRunningPod(scene, "db-0", { controller: setOf("db") });
  putRunningPod(scene, "web-x", {
    controller: { ...setOf("web"), kind: "ReplicaSet" },
  });
  await scene.add(SET, { pod: "db-0" });
  await scene.add(SET, { pod: "web-x" });
  assertEquals(scene.api.listNames("ipamclaims"), ["db-0.net.net1"]);
});

Deno.test("whereabouts stay: ADD refuses the claim of a deleted set of the same name", async () => {
  await using scene = await WhereaboutsScene.start();
  await scene.add(SET, ofSet("db-0"));
  await scene.del(SET, ofSet("db-0"));
  const call = ofSet("db-0", { set: setOf("db", "new") });
  const { code, msg } = await scene.failure(SET, call);
  assertEquals(code, 7);
  assertMatch(msg, /StatefulSet "db", which does not control the pod/);
  // Kubernetes deletes the objects of the old set.
  scene.api.remove("ipamclaims", "test", "db-0.net.net1");
  assertEquals(await scene.add(SET, call), ["10.0.0.2/24"]);
});

Deno.test("whereabouts stay: cluster-gc releases the addresses of pods that scaling down removed", async () => {
  await using scene = await WhereaboutsScene.start();
  const ipam = { ...SET, stayWhenScaled: "delete" };
  const set = { ...setOf("db"), namespace: "test" };
  const scale = (replicas: number): void =>
    void scene.api.put("statefulsets", { metadata: set, spec: { replicas } });
  scale(3);
  for (const pod of ["db-0", "db-1", "db-2"]) {
    await scene.add(ipam, ofSet(pod));
    await scene.del(ipam, ofSet(pod));
  }
  await gc(scene, ...NOW);
  assertEquals(Object.keys(scene.allocations(POOL) ?? {}), ["1", "2", "3"]);
  scale(1);
  // A pod that still ends.
  putRunningPod(scene, "db-2", { controller: setOf("db") });
  await gc(scene, ...NOW);
  assertEquals(Object.keys(scene.allocations(POOL) ?? {}), ["1", "3"]);
  scene.api.removePod("test", "db-2");
  await gc(scene, ...NOW);
  assertEquals(Object.keys(scene.allocations(POOL) ?? {}), ["1"]);
});

Deno.test("whereabouts stay: a pod name keeps its address for stayTime after DEL", async () => {
  await using scene = await WhereaboutsScene.start();
  const call = { pod: "web" };
  assertEquals(await scene.add(NAMED, call), ["10.0.0.1/24"]);
  await scene.del(NAMED, call);
  const name = "web.net.net1";
  age(scene, name, 9);
  await gc(scene, ...NOW);
  assertEquals(await scene.add(NAMED, call), ["10.0.0.1/24"]);
  putRunningPod(scene, "web");
  // In use, however long ago it was not.
  const types = (): string[] =>
    claimStatus(scene, name).conditions.map(({ type }: { type: string }) =>
      type
    );
  assertEquals(types(), ["cni.dev/Sandbox", "IPsAllocated"]);
  await gc(scene, ...NOW);
  assertEquals(scene.api.listNames("ipamclaims"), [name]);
  await scene.del(NAMED, call);
  scene.api.removePod("test", "web");
  assertEquals(types(), ["IPsAllocated", "cni.dev/Unused"]);
  age(scene, name, 20);
  assertMatch(
    (await gc(scene)).stdout,
    /web\.net\.net1 .*no pod has used it for longer than its stayTime/,
  );
  await gc(scene, ...NOW);
  assertEquals(scene.api.listNames("ipamclaims"), []);
  assertEquals(scene.allocations(POOL), {});
  assertEquals(scene.reservations(), []);
});

Deno.test("whereabouts stay: stayTime starts at cluster-gc if a pod ended without DEL", async () => {
  await using scene = await WhereaboutsScene.start();
  const call = { pod: "web" };
  putRunningPod(scene, "web");
  await scene.add(NAMED, call);
  await gc(scene, ...NOW);
  scene.api.removePod("test", "web");
  // Its time begins.
  await gc(scene, ...NOW);
  assertEquals(scene.api.listNames("ipamclaims"), ["web.net.net1"]);
  age(scene, "web.net.net1", 11);
  // A pod of that name exists again, before its ADD.
  putRunningPod(scene, "web");
  await gc(scene, ...NOW);
  assertEquals(await scene.add(NAMED, call), ["10.0.0.1/24"]);
});

Deno.test("whereabouts stay: cluster-gc releases the claim of a killed ADD after stayTime", async () => {
  await using scene = await WhereaboutsScene.start();
  await scene.add(NAMED, { pod: "web" });
  const name = "web.net.net1";
  const claim = scene.api.find("ipamclaims", "test", name);
  const metadata = { ...claim?.metadata, name };
  scene.api.put("ipamclaims", { ...claim, metadata, status: undefined });
  // Its time begins.
  await gc(scene, ...NOW);
  age(scene, name, 20);
  await gc(scene, ...NOW);
  assertEquals(scene.api.listNames("ipamclaims"), []);
  assertEquals(scene.allocations(POOL), {});
});

/** Changes the metadata of a claim. */
function changeClaim(
  { api }: WhereaboutsScene,
  name: string,
  change: object,
): void {
  const claim = api.find("ipamclaims", "test", name);
  const metadata = { ...claim?.metadata, ...change, name };
  api.put("ipamclaims", { ...claim, metadata });
}

Deno.test("whereabouts stay: cluster-gc keeps an invalid claim, and releases the others", async (t) => {
  const scaled = { "cni.dev/stay-when-scaled": "delete" };
  await eachRow(
    t,
    [
      ["a time that is no number", { "cni.dev/stay-time-ms": "1e300" }],
      ["an empty time", { "cni.dev/stay-time-ms": "" }],
      ["a time beyond ten years", {
        "cni.dev/stay-time-ms": "9007199254740991",
      }],
      ["a StatefulSet of a group that the tool must not read", scaled, {
        ...setOf("x"),
        apiVersion: "foo.example/v1",
      }],
      ["a StatefulSet that the tool must not read", scaled, setOf("x")],
      ["a set whose name is no name", { "cni.dev/stay-statefulset": ".." }],
    ] as const,
    async ([, more, ...ownerReferences]) => {
      await using scene = await WhereaboutsScene.start();
      for (const pod of ["a-0", "b-0"]) {
        await scene.add(NAMED, { pod });
        await scene.del(NAMED, { pod });
        age(scene, `${pod}.net.net1`, 20);
      }
      const annotations = { "cni.dev/stay-pod": "a-0", ...more };
      changeClaim(scene, "a-0.net.net1", { annotations, ownerReferences });
      scene.api.fault({ path: /statefulsets/, status: 403 });
      const { exitCode, stderr } = await gc(scene, ...NOW);
      assertEquals(exitCode, 0, stderr);
      assertEquals(scene.api.listNames("ipamclaims"), ["a-0.net.net1"]);
      assertEquals(Object.keys(scene.allocations(POOL) ?? {}), ["1"]);
      const isOfGroup = ownerReferences[0]?.apiVersion === "foo.example/v1";
      if (!isOfGroup) assertMatch(stderr, /Keeping .*test\/(a-0|x|\.\.)/);
    },
  );
});

Deno.test("whereabouts stay: cluster-gc requests each StatefulSet once", async () => {
  await using scene = await WhereaboutsScene.start();
  const ipam = { ...SET, stayWhenScaled: "delete" };
  const metadata = { ...setOf("db"), namespace: "test" };
  scene.api.put("statefulsets", { metadata, spec: { replicas: 3 } });
  for (const pod of ["db-0", "db-1", "db-2"]) {
    await scene.add(ipam, ofSet(pod));
    await scene.del(ipam, ofSet(pod));
  }
  scene.api.clearRequests();
  await gc(scene);
  assertEquals(scene.api.requestsOf("GET", /statefulsets/).length, 1);
});

Deno.test("whereabouts stay: cluster-gc releases the other claims if a request for one is refused", async (t) => {
  await eachRow(
    t,
    [
      ["its deletion", "DELETE", true],
      ["the begin of its time", "PATCH", false],
    ] as const,
    async ([, method, isTimed]) => {
      await using scene = await WhereaboutsScene.start();
      for (const pod of ["a", "b"]) {
        await scene.add(NAMED, { pod });
        if (isTimed || pod === "b") await scene.del(NAMED, { pod });
        if (isTimed || pod === "b") age(scene, `${pod}.net.net1`, 20);
      }
      // As an admission webhook does.
      const path = /ipamclaims\/a\./;
      scene.api.fault({ method, path, status: 403 });
      const { exitCode, stdout, stderr } = await gc(scene, ...NOW);
      assertEquals(scene.api.listNames("ipamclaims"), ["a.net.net1"]);
      assertEquals(Object.keys(scene.allocations(POOL) ?? {}), ["1"]);
      assertEquals(exitCode, 1);
      assertMatch(stdout, /^released b\.net\.net1 \(IPAMClaim\)/m);
      assertMatch(
        stdout,
        /^kept a\.net\.net1 \(IPAMClaim\) of test\/a: /m,
        stderr,
      );
    },
  );
});

Deno.test("whereabouts stay: claims of an orphaned pod are kept until no set of the name exists", async (t) => {
  for (const stayWhenScaled of ["keep", "delete"]) {
    await t.step(stayWhenScaled, async () => {
      await using scene = await WhereaboutsScene.start();
      const ipam = { ...SET, stayWhenScaled };
      const set = { ...setOf("db"), namespace: "test" };
      putRunningPod(scene, "db-0", { controller: setOf("db") });
      await scene.add(ipam, ofSet("db-0"));
      const name = "db-0.net.net1";
      // As `kubectl delete statefulset --cascade=orphan` does.
      changeClaim(scene, name, { ownerReferences: [] });
      await gc(scene, ...NOW);
      assertEquals(scene.api.listNames("ipamclaims"), [name]);
      // A set of this name adopts the pod, and its claim outlives the pod.
      scene.api.put("statefulsets", { metadata: set, spec: { replicas: 1 } });
      scene.api.removePod("test", "db-0");
      await gc(scene, ...NOW);
      assertEquals(scene.api.listNames("ipamclaims"), [name]);
      scene.api.remove("statefulsets", "test", "db");
      assertMatch(
        (await gc(scene)).stdout,
        /db-0\.net\.net1 .*its StatefulSet no longer exists/,
      );
      await gc(scene, ...NOW);
      assertEquals(scene.api.listNames("ipamclaims"), []);
      assertEquals(scene.allocations(POOL), {});
      assertEquals(scene.reservations(), []);
    });
  }
});

Deno.test("whereabouts stay: cluster-gc keeps the claims of a set in a different API group", async () => {
  await using scene = await WhereaboutsScene.start();
  const set = { ...setOf("db"), apiVersion: "apps.kruise.io/v1beta1" };
  const ipam = { ...SET, stayWhenScaled: "delete" };
  await scene.add(ipam, ofSet("db-0", { set }));
  await scene.del(ipam, ofSet("db-0", { set }));
  scene.api.clearRequests();
  for (const ownerReferences of [[set], []]) {
    changeClaim(scene, "db-0.net.net1", { ownerReferences });
    await gc(scene, ...NOW);
    assertEquals(Object.keys(scene.allocations(POOL) ?? {}), ["1"]);
  }
  assertEquals(scene.api.requestsOf("GET", /statefulsets/), []);
});

Deno.test("whereabouts stay: ADD refuses invalid keys, and DEL succeeds", async () => {
  await using scene = await WhereaboutsScene.start();
  const rows: readonly [JsonObject, number, RegExp][] = [
    [{ stay: "name" }, 7, /needs stayTime/],
    [{ stay: "always" }, 7, /stay/],
    [{ stay: "name", stayTime: "soon" }, 7, /not a duration/],
    [{ stay: "name", stayTime: "0" }, 7, /not a duration/],
  ];
  for (const [keys, code, text] of rows) {
    const ipam = { range: "10.0.0.0/24", ...keys };
    const failure = await scene.failure(ipam, { pod: "web" });
    assertEquals(failure.code, code);
    assertMatch(`${failure.msg} ${failure.details}`, text);
    // DEL does not mind.
    await scene.del(ipam, { pod: "web" });
  }
  assertEquals(scene.allocations(POOL), undefined);
});

Deno.test("whereabouts stay: many pods keep their addresses while other pods come and go", async () => {
  await using scene = await WhereaboutsScene.start();
  const ipam = { range: "10.0.0.0/22", stay: "statefulset" };
  const names = Array.from({ length: COUNT }, (_, index) => `db-${index}`);
  const first = new Map<string, string>();
  let changed = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const shuffled = names.toSorted(() => Math.random() - 0.5);
    await eachAtOnce(shuffled, 8, async (pod) => {
      const call = ofSet(pod, { id: `${pod}-${round}` });
      const address = `${await scene.add(ipam, call)}`;
      if (address !== (first.get(pod) ?? address)) changed++;
      first.set(pod, address);
      const other = { pod: `${pod}-other-${round}` };
      await scene.add({ range: "10.0.0.0/22" }, other);
      // DEL runs before the next ADD, after it, or not at all.
      if (Math.random() < 0.6) await scene.del(ipam, call);
      await scene.del({ range: "10.0.0.0/22" }, other);
    });
  }
  assertEquals([changed, new Set(first.values()).size], [0, COUNT]);
  const records = Object.values(scene.allocations("10.0.0.0-22") ?? {});
  assertEquals(records.length, COUNT);
  assert(records.every(({ podref }) => podref === ""));
  assertEquals(scene.reservations().length, COUNT);
});
