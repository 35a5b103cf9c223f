import { assert, assertEquals } from "@std/assert";
import { createLog } from "../../base/log/log.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import {
  claimRecord,
  EVIDENCE,
  putIpamClaim,
  putRunningPod,
  withClaim,
} from "./testing/claims.ts";
import { WhereaboutsScene } from "./testing/scene.ts";
import { ClaimReleaser, ResidentClients } from "./daemon.ts";

const DUAL = { range: "10.0.0.0/24", ipRanges: [{ range: "fd00::/64" }] };
const POOLS = ["10.0.0.0-24", "fd00---64"];
/** Longer than a check takes. */
const CHECK_MS = 20;

/** Daemons of some nodes, in a cluster with pools. */
class Daemons implements AsyncDisposable {
  readonly scene: WhereaboutsScene;
  readonly releasers: readonly ClaimReleaser[];
  readonly lines: string[] = [];
  readonly #clients: ResidentClients;
  readonly #end = new AbortController();
  readonly #running: Promise<unknown>;

  constructor(scene: WhereaboutsScene, nodes: number) {
    this.scene = scene;
    const log = createLog({}, (line) => this.lines.push(line));
    const clients = this.#clients = new ResidentClients(log);
    this.releasers = Array.from({ length: nodes }, () =>
      new ClaimReleaser({
        clientOf: (kubeconfig) => clients.clientOf({ kubeconfig, env: {} }),
        log,
        checkMs: CHECK_MS,
      }));
    // A machine that was on all of the nodes.
    scene.useClients(
      clients.open,
      (claim) => this.releasers.forEach((one) => one.note(claim)),
    );
    this.#running = Promise.all(
      this.releasers.map((one) => one.run(this.#end.signal)),
    );
  }

  /** Number of records in the pools, and of reservations. */
  count(): number[] {
    return [
      ...POOLS.map((pool) =>
        Object.keys(this.scene.allocations(pool) ?? {}).length
      ),
      this.scene.reservations().length,
    ];
  }

  /** Sets the interval of the checks of every daemon. */
  async check(times: number): Promise<void> {
    for (let at = 0; at < times; at++) {
      for (const one of this.releasers) await one.check(this.#end.signal);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort();
    await this.#running;
    this.#clients[Symbol.dispose]();
    await this.scene[Symbol.asyncDispose]();
  }
}

async function start(nodes: number): Promise<Daemons> {
  return new Daemons(await WhereaboutsScene.start(), nodes);
}

Deno.test("ClaimReleaser releases the addresses of deleted claims", async () => {
  await using daemons = await start(3);
  const { scene } = daemons;
  for (const name of ["a", "b"]) {
    putIpamClaim(scene, name);
    const call = withClaim(name, { pod: name });
    await scene.add(DUAL, call);
    await scene.del(DUAL, call);
  }
  await scene.add(DUAL, { pod: "ordinary" });
  assertEquals(daemons.count(), [3, 3, 6]);
  scene.api.remove("ipamclaims", "test", "a");
  // All nodes at the same time.
  await eventually("released", () => daemons.count()[0] === 2);
  await eventually(
    "forgotten",
    () => daemons.releasers.every(({ size }) => size === 1),
  );
  assertEquals(daemons.count(), [2, 2, 4]);
  assertEquals(
    Object.values(scene.allocations("10.0.0.0-24") ?? {})
      .filter(({ podref }) => podref === ""),
    [claimRecord(scene, "b")],
  );
});

Deno.test("ClaimReleaser keeps an address that a running pod has", async (t) => {
  await eachRow(t, Object.entries(EVIDENCE), async ([, evidence]) => {
    await using daemons = await start(1);
    const { scene } = daemons;
    putIpamClaim(scene, "vm");
    const ips = await scene.add(DUAL, withClaim("vm", { pod: "vm-1" }));
    const [, ip6 = ""] = ips.map((one) => one.split("/")[0] ?? "");
    putRunningPod(scene, "vm-1", evidence(["192.168.0.9", ip6]));
    scene.api.clearRequests();
    scene.api.remove("ipamclaims", "test", "vm");
    // It has asked, and found the pod.
    await eventually(
      "asked",
      () => scene.api.requestsOf("GET", /namespaces\/test\/pods/).length > 1,
    );
    assertEquals(daemons.count(), [1, 1, 2]);
    scene.api.removePod("test", "vm-1");
    await eventually("released", () => daemons.count()[0] === 0);
  });
});

Deno.test("ClaimReleaser keeps the address of a new claim of the same name", async () => {
  await using daemons = await start(1);
  const { scene } = daemons;
  putIpamClaim(scene, "vm");
  await scene.add(DUAL, withClaim("vm", { pod: "vm-1" }));
  scene.api.remove("ipamclaims", "test", "vm");
  const uid = crypto.randomUUID();
  putIpamClaim(scene, "vm", { metadata: { uid } });
  const call = withClaim("vm", { pod: "vm-1", id: "next" });
  const second = await scene.add(DUAL, call);
  await eventually("released", () => daemons.count()[0] === 1);
  assertEquals(scene.allocations("10.0.0.0-24"), {
    [second[0]?.split("/")[0]?.split(".")[3] ?? ""]: claimRecord(scene, "vm"),
  });
});

Deno.test("ClaimReleaser watches only while a claim exists", async () => {
  await using daemons = await start(2);
  const { scene } = daemons;
  const watches = (): number =>
    scene.api.requests.filter(({ path }) =>
      /ipamclaims\?/.test(path) && path.includes("watch=")
    ).length;
  await scene.add(DUAL, { pod: "ordinary" });
  await daemons.check(5);
  assertEquals(watches(), 0);
  putIpamClaim(scene, "vm");
  await scene.add(DUAL, withClaim("vm", { pod: "vm-1" }));
  await eventually("watched", () => watches() >= 2);
  // While it exists, nothing else is asked.
  scene.api.clearRequests();
  await daemons.check(20);
  const others = scene.api.requests
    .filter(({ path }) => !path.includes("watch="));
  assertEquals(others, []);
  scene.api.remove("ipamclaims", "test", "vm");
  await eventually("released", () => daemons.count()[0] === 1);
});

Deno.test("ClaimReleaser retries if another writer changes the pool first", async (t) => {
  for (const status of [409, 422]) {
    await t.step(`${status}`, async () => {
      await using daemons = await start(1);
      const { scene } = daemons;
      putIpamClaim(scene, "vm");
      await scene.add(DUAL, withClaim("vm", { pod: "vm-1" }));
      // The removals of a record and of a reservation's finalizer.
      const faults = [/ippools/, /overlappingrangeipreservations/].map((path) =>
        scene.api.fault({ method: "PATCH", path, times: 1, status })
      );
      scene.api.remove("ipamclaims", "test", "vm");
      await eventually(
        "forgotten",
        () => daemons.releasers.every(({ size }) => size === 0),
      );
      assertEquals(daemons.count(), [0, 0, 0]);
      assertEquals(faults.map(({ hits }) => hits), [1, 1]);
    });
  }
});

Deno.test("ClaimReleaser reports missing permissions", async () => {
  await using daemons = await start(1);
  const { scene } = daemons;
  putIpamClaim(scene, "vm");
  await scene.add(DUAL, withClaim("vm", { pod: "vm-1" }));
  scene.api.forbid("patch", "ippools");
  scene.api.remove("ipamclaims", "test", "vm");
  await eventually("refused", () => daemons.lines.length > 0);
  assert(daemons.lines[0]?.includes("Cannot release the addresses"));
  assertEquals(daemons.count(), [1, 1, 2]);
});

Deno.test("ResidentClients keeps one connection for the calls of a kubeconfig", async () => {
  await using scene = await WhereaboutsScene.start({});
  using clients = new ResidentClients({ info(): void {}, warn(): void {} });
  scene.useClients(clients.open);
  const before = scene.api.connections;
  const ipam = { range: "10.0.0.0/24" };
  assertEquals(await scene.add(ipam, { pod: "a" }), ["10.0.0.1/24"]);
  assertEquals(await scene.add(ipam, { pod: "b" }), ["10.0.0.2/24"]);
  await scene.del(ipam, { pod: "a" });
  assertEquals(scene.api.connections - before, 1);
});
