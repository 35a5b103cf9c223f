import { assertEquals, assertMatch } from "@std/assert";
import type { ApiClient } from "../api.ts";
import { openOwnClient } from "../session.ts";
import { runCni, runCniOn } from "../../../tests/_harness/tool_call.ts";
import { POOLS, WhereaboutsScene } from "../testing/scene.ts";
import { staleInBoth, surveyPools } from "./survey.ts";

const POOL = "10.0.0.0-24";
/** Releases without a second comparison. */
const NOW = ["--yes", "--grace", "0"];
const RESERVATIONS = "overlappingrangeipreservations";

function record(
  pod: string,
): { id: string; podref: string; ifname: string } {
  return { id: `id-${pod}`, podref: `test/${pod}`, ifname: "net1" };
}

/** A cluster with a pod in every state, each with an address. */
async function startScene(): Promise<WhereaboutsScene> {
  const scene = await WhereaboutsScene.start();
  const phases = {
    running: "Running",
    creating: "Pending",
    unknown: "Unknown",
    done: "Succeeded",
    failed: "Failed",
  };
  for (const [name, phase] of Object.entries(phases)) {
    scene.api.putPod({
      metadata: { name, namespace: "test" },
      status: { phase },
    });
  }
  const ending = { name: "ending", namespace: "test" };
  scene.api.putPod({
    metadata: { ...ending, deletionTimestamp: "2026-01-01T00:00:00Z" },
    status: { phase: "Running" },
  });
  const pods = [...Object.keys(phases), "ending", "gone"];
  scene.putPool(
    POOL,
    "10.0.0.0/24",
    Object.fromEntries(pods.map((pod, index) => [index + 1, record(pod)])),
  );
  for (const [index, pod] of pods.entries()) {
    scene.putReservation(`10.0.0.${index + 1}`, `test/${pod}`, "net1");
  }
  return scene;
}

Deno.test("cni cluster-gc releases the addresses of deleted pods, and no others", async (t) => {
  await using scene = await startScene();
  const gc = (...flags: string[]): ReturnType<typeof runCni> =>
    runCni("cluster-gc", "--kubeconfig", scene.kubeconfig, ...flags);

  await t.step("the dry run lists them", async () => {
    scene.takeRequests();
    const { stdout, stderr, exitCode } = await gc("--exit-code");
    assertEquals(exitCode, 1);
    assertEquals(
      stdout.trim().split("\n").slice(1).map((line) => line.split(/ {2,}/)),
      [
        [
          "10.0.0.4",
          `IPPool ${POOL}`,
          "test/done",
          "the pod has terminated: Succeeded",
        ],
        [
          "10.0.0.5",
          `IPPool ${POOL}`,
          "test/failed",
          "the pod has terminated: Failed",
        ],
        ["10.0.0.7", `IPPool ${POOL}`, "test/gone", "the pod was deleted"],
        [
          "10.0.0.4",
          "reservation",
          "test/done",
          "the pod has terminated: Succeeded",
        ],
        [
          "10.0.0.5",
          "reservation",
          "test/failed",
          "the pod has terminated: Failed",
        ],
        ["10.0.0.7", "reservation", "test/gone", "the pod was deleted"],
      ],
    );
    assertMatch(
      stderr,
      /7 addresses in 1 pool: nothing was released; use --yes/,
    );
    assertEquals(
      scene.takeRequests().map((request) => request.replace(/\?.*/, "")),
      [`GET ${RESERVATIONS}`, "GET ippools", "GET /api/v1/pods"],
    );
    assertEquals(Object.keys(scene.allocations(POOL) ?? {}).length, 7);
  });

  await t.step("a run releases them", async () => {
    const { stdout, stderr, exitCode } = await gc(
      "--yes",
      "--json",
      "--grace",
      "1ms",
    );
    assertEquals(exitCode, 0);
    const { released, kept, pools } = JSON.parse(stdout);
    assertMatch(stderr, /Checking again/);
    const lists = scene.takeRequests().map((request) =>
      request.replace(/[?/].*/, "")
    );
    assertEquals(lists.filter((one) => one === "GET ippools").length, 2);
    assertEquals([released.length, kept], [6, []]);
    assertEquals(pools, [
      { pool: POOL, range: "10.0.0.0/24", allocations: 7 },
    ]);
    const left = ["1", "2", "3", "6"];
    assertEquals(Object.keys(scene.allocations(POOL) ?? {}), left);
    assertEquals(scene.reservations(), left.map((key) => `10.0.0.${key}`));
  });

  await t.step("a second run finds nothing", async () => {
    const { stdout, stderr, exitCode } = await gc("--yes", "--exit-code");
    assertEquals([stdout, exitCode], ["", 0]);
    assertMatch(
      stderr,
      /4 addresses in 1 pool: every address belongs to a pod/,
    );
  });
});

Deno.test("cni cluster-gc does not count --grace towards --timeout", async () => {
  await using scene = await startScene();
  const { exitCode, stdout, stderr } = await runCni(
    ...["cluster-gc", "--kubeconfig", scene.kubeconfig, "--yes"],
    ...["--timeout", "3s", "--grace", "4s"],
  );
  assertEquals(exitCode, 0, stderr);
  assertMatch(stdout, /released 10\.0\.0\.7/);
});

Deno.test("cni cluster-gc prints a table of 80 columns even with long pod names", async () => {
  await using scene = await WhereaboutsScene.start();
  const pod = "checkout-frontend-canary-with-a-rather-long-name-7d9f8b6c5d";
  scene.putPool(POOL, "10.0.0.0/24", {
    1: record(`${pod}-x2k4p`),
    2: record(`${pod}-q8w7z`),
  });
  const { stdout } = await runCniOn(
    { width: 80 },
    ...["cluster-gc", "--kubeconfig", scene.kubeconfig],
  );
  assertEquals(stdout.trimEnd().split("\n"), [
    "ADDRESS   WHERE               POD",
    "10.0.0.1  IPPool 10.0.0.0-24  test/checkout-frontend-c…ong-name-7d9f8b6c5d-x2k4p",
    "  the pod was deleted",
    "10.0.0.2  IPPool 10.0.0.0-24  test/checkout-frontend-c…ong-name-7d9f8b6c5d-q8w7z",
    "  the pod was deleted",
    "Shortened: POD (--wide shows all)",
  ]);
});

Deno.test("cni cluster-gc releases the record whose address the pod's status lacks", async () => {
  await using scene = await WhereaboutsScene.start();
  const status = [{ name: "test/net", interface: "net1", ips: ["10.0.0.2"] }];
  const annotations = {
    "k8s.v1.cni.cncf.io/network-status": JSON.stringify(status),
  };
  scene.api.putPod({
    metadata: { name: "p1", namespace: "test", annotations },
  });
  scene.putPool(POOL, "10.0.0.0/24", {
    "1": record("p1"),
    "2": record("p1"),
    // Another interface, which the status misses.
    "3": { ...record("p1"), ifname: "net2" },
  });
  scene.putPool("blue-10.0.0.0-25", "10.0.0.0/25", { "9": record("p1") });
  for (const ip of ["10.0.0.1", "10.0.0.2", "10.0.0.3", "blue-10.0.0.9"]) {
    scene.putReservation(ip, "test/p1", "net1");
  }
  await runCni("cluster-gc", "--kubeconfig", scene.kubeconfig, ...NOW);
  assertEquals(Object.keys(scene.allocations(POOL) ?? {}), ["2", "3"]);
  assertEquals(scene.allocations("blue-10.0.0.0-25"), { "9": record("p1") });
  assertEquals(scene.reservations(), ["10.0.0.2", "10.0.0.3", "blue-10.0.0.9"]);
});

Deno.test("cni cluster-gc releases a reservation of a running pod without a record", async () => {
  await using scene = await WhereaboutsScene.start();
  for (const name of ["p1", "p2", "p3"]) {
    scene.api.putPod({ metadata: { name, namespace: "test" } });
  }
  scene.putPool(POOL, "10.0.0.0/24", {
    "1": record("p1"),
    "300": record("p2"),
  });
  scene.putPool("broken", "10.0.0.0", { "1": record("p3") });
  // A reservation with its record, without a record, of a deleted pod, of two pods
  // with records of unknown addresses, and of another program.
  scene.putReservation("10.0.0.1", "test/p1", "net1");
  scene.putReservation("10.0.0.2", "test/p1", "net1");
  scene.putReservation("net-10.0.0.1", "test/gone", "net1");
  scene.putReservation("10.0.0.3", "test/p2", "net1");
  scene.putReservation("10.0.0.4", "test/p3", "net1");
  scene.putReservation("10.0.0.5", "reserved", "net1");
  const { stdout } = await runCni(
    ...["cluster-gc", "--kubeconfig", scene.kubeconfig],
  );
  assertMatch(stdout, /10\.0\.0\.2 .*the pod has no record of the address/);
  await runCni("cluster-gc", "--kubeconfig", scene.kubeconfig, ...NOW);
  assertEquals(scene.reservations(), [
    ...["10.0.0.1", "10.0.0.3", "10.0.0.4", "10.0.0.5"],
  ]);
});

Deno.test("cni cluster-gc keeps a record that changed during the release", async () => {
  await using scene = await WhereaboutsScene.start();
  scene.putPool(POOL, "10.0.0.0/24", { "1": record("a"), "2": record("b") });
  scene.putReservation("10.0.0.1", "test/a", "net1");
  // The pod is created again after the list of pods, and adopts its record.
  const taken = { ...record("a"), id: "new-sandbox" };
  scene.api.fault({ method: "PATCH", times: 1, delayMs: 50 });
  const running = runCni(
    "cluster-gc",
    "--kubeconfig",
    scene.kubeconfig,
    ...NOW,
  );
  while (scene.api.requestsOf("PATCH").length === 0) {
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  scene.putPool(POOL, "10.0.0.0/24", { "1": taken, "2": record("b") });
  const { stdout, exitCode } = await running;
  assertEquals(exitCode, 1);
  assertMatch(stdout, /kept 10.0.0.1 .*: it has changed since/);
  assertMatch(stdout, /released 10.0.0.2/);
  assertEquals(scene.allocations(POOL), { "1": taken });
  assertEquals(scene.reservations(), ["10.0.0.1"]);
});

Deno.test("cni cluster-gc does not change a pool without a valid range", async () => {
  await using scene = await WhereaboutsScene.start();
  scene.putPool("broken", "10.0.0.0", { "1": record("a") });
  scene.putPool(POOL, "10.0.0.0/24", { "1": record("a") });
  const { stderr, exitCode } = await runCni(
    "cluster-gc",
    "--kubeconfig",
    scene.kubeconfig,
    ...NOW,
  );
  assertEquals(exitCode, 0, stderr);
  assertMatch(stderr, /without a valid range.*pool=broken/);
  assertEquals(scene.allocations(POOL), {});
  assertEquals(scene.allocations("broken"), { "1": record("a") });
});

Deno.test("cni cluster-gc reads the cluster and the namespace from its environment and flags", async (t) => {
  await using scene = await WhereaboutsScene.start();
  scene.api.put("ippools", {
    metadata: { namespace: "other", name: POOL },
    spec: { range: "10.0.0.0/24", allocations: { "1": record("a") } },
  });
  await t.step("by KUBECONFIG and WHEREABOUTS_NAMESPACE", async () => {
    const env = {
      KUBECONFIG: scene.kubeconfig,
      WHEREABOUTS_NAMESPACE: "other",
    };
    const { stdout } = await runCniOn({ env }, "cluster-gc", "--json");
    assertEquals(JSON.parse(stdout).namespace, "other");
    assertEquals(JSON.parse(stdout).stale.length, 1);
  });
  await t.step("--namespace overrides the environment", async () => {
    const env = {
      KUBECONFIG: scene.kubeconfig,
      WHEREABOUTS_NAMESPACE: "other",
    };
    const flags = ["--json", "--namespace", POOLS];
    const found = await runCniOn({ env }, "cluster-gc", ...flags);
    assertEquals(JSON.parse(found.stdout).pools, []);
    const { stderr } = await runCniOn({ env }, "cluster-gc", ...flags.slice(1));
    assertMatch(stderr, /the namespace "kube-system" has none/);
  });
  await t.step("fails without a kubeconfig", async () => {
    const { exitCode, stderr } = await runCniOn(
      { env: { HOME: "/none" } },
      "cluster-gc",
    );
    assertEquals(exitCode, 1);
    assertMatch(stderr, /no cluster: name a kubeconfig/);
  });
});

/** A client of a scene that runs something before each list. */
async function clientWith(
  scene: WhereaboutsScene,
  before: (path: string) => void,
): Promise<ApiClient> {
  const { kubeconfig } = scene;
  const client = await openOwnClient({ kubeconfig, env: {} });
  if (client === undefined) throw new Error("a kubeconfig has a client");
  return {
    request: (...args) => client.request(...args),
    listPages: (path, options) => {
      before(path);
      return client.listPages(path, options);
    },
    [Symbol.dispose]: () => client[Symbol.dispose](),
  };
}

const log = { info: () => {}, warn: () => {} };
const OPTIONS = {
  namespace: POOLS,
  log,
  signal: new AbortController().signal,
};

Deno.test("cni cluster-gc keeps the address of a pod that is created while it runs", async () => {
  await using scene = await WhereaboutsScene.start();
  const pods: string[] = [];
  // Before each list, a pod is created and gets an address.
  using client = await clientWith(scene, () => {
    const name = `p${pods.length}`;
    pods.push(name);
    scene.api.putPod({ metadata: { name, namespace: "test" } });
    scene.putPool(
      POOL,
      "10.0.0.0/24",
      Object.fromEntries(pods.map((pod, index) => [index + 1, record(pod)])),
    );
    scene.putReservation(`10.0.0.${pods.length}`, `test/${name}`, "net1");
  });
  const { records, reservations } = await surveyPools({ client, ...OPTIONS });
  assertEquals([records, reservations], [[], []]);
  assertEquals(pods.length, 3);
});

Deno.test("cni cluster-gc keeps an address whose pod appears before the second check", async () => {
  await using scene = await startScene();
  using client = await clientWith(scene, () => {});
  const first = await surveyPools({ client, ...OPTIONS });
  scene.api.putPod({ metadata: { name: "gone", namespace: "test" } });
  scene.putPool(POOL, "10.0.0.0/24", {
    "4": record("done"),
    "5": { ...record("failed"), id: "new-sandbox" },
    "7": record("gone"),
    "8": record("new"),
  });
  const second = await surveyPools({ client, ...OPTIONS });
  const lasting = staleInBoth(first, second);
  assertEquals(lasting.records.map(({ ip }) => ip), ["10.0.0.4"]);
  assertEquals(lasting.reservations.map(({ name }) => name), ["10.0.0.4"]);
  // Reservations that have lost their record since then.
  assertEquals(second.reservations.map(({ name }) => name), [
    "10.0.0.1",
    "10.0.0.2",
    "10.0.0.3",
    "10.0.0.4",
    "10.0.0.5",
    "10.0.0.6",
  ]);
});

Deno.test("cni cluster-gc lists again if the server's page token has expired", async (t) => {
  await using scene = await startScene();
  for (let index = 0; index < 9; index++) {
    scene.putPool(`10.9.${index}.0-24`, `10.9.${index}.0/24`, {
      "1": record("gone"),
    });
  }
  const gc = (): ReturnType<typeof runCni> =>
    runCni("cluster-gc", "--kubeconfig", scene.kubeconfig, "--json");
  await t.step("once", async () => {
    scene.api.fault({ path: /continue=/, times: 1, status: 410 });
    const { stdout, exitCode } = await gc();
    assertEquals(exitCode, 0);
    assertEquals(JSON.parse(stdout).pools.length, 10);
    assertEquals(JSON.parse(stdout).stale.length, 15);
  });
  await t.step("always", async () => {
    scene.api.fault({ path: /continue=/, status: 410 });
    const { exitCode } = await gc();
    assertEquals(exitCode, 1);
  });
});
