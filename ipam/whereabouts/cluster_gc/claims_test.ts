import { assertEquals, assertMatch } from "@std/assert";
import { openKubeClient } from "../../../kube/client.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import {
  claimRecord,
  claimStatus,
  EVIDENCE,
  putIpamClaim,
  putRunningPod,
  setOf,
  withClaim,
} from "../testing/claims.ts";
import { runCni } from "../../../tests/_harness/tool_call.ts";
import { POOLS, WhereaboutsScene } from "../testing/scene.ts";

const RANGE = { range: "10.0.0.0/24" };
const POOL = "10.0.0.0-24";
const RESERVATIONS = "overlappingrangeipreservations";

/** A cluster with claims `a` and `b`, and an ordinary pod. */
async function startScene(): Promise<WhereaboutsScene> {
  const scene = await WhereaboutsScene.start();
  for (const name of ["a", "b"]) {
    putIpamClaim(scene, name);
    await scene.add(RANGE, withClaim(name, { pod: name }));
    await scene.del(RANGE, withClaim(name, { pod: name }));
  }
  putRunningPod(scene, "plain");
  await scene.add(RANGE, { pod: "plain" });
  return scene;
}

function gc(
  scene: WhereaboutsScene,
  ...flags: string[]
): ReturnType<typeof runCni> {
  return runCni("cluster-gc", "--kubeconfig", scene.kubeconfig, ...flags);
}

const NOW = ["--yes", "--grace", "1ms"];

/** Deletes a reservation, as the reference's reconciler does. */
async function deleteReservation(
  { kubeconfig }: WhereaboutsScene,
  name: string,
): Promise<void> {
  using client = await openKubeClient({ kubeconfig, env: {} });
  await client?.request({
    method: "DELETE",
    path: `/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/${POOLS}/` +
      `${RESERVATIONS}/${name}`,
  });
}

Deno.test("cni cluster-gc keeps the addresses of existing IPAMClaims", async () => {
  await using scene = await startScene();
  const { stdout, stderr } = await gc(scene, "--dry-run");
  assertEquals(
    stdout.trim().split("\n").slice(1).map((line) => line.split(/ {2,}/)),
    [
      [
        "10.0.0.1",
        `IPPool ${POOL}`,
        "test/a",
        "it is reserved for the IPAMClaim",
      ],
      [
        "10.0.0.2",
        `IPPool ${POOL}`,
        "test/b",
        "it is reserved for the IPAMClaim",
      ],
    ],
  );
  assertMatch(stderr, /3 addresses in 1 pool, 2 of them for IPAMClaims/);
  assertEquals((await gc(scene, ...NOW)).exitCode, 0);
  assertEquals(Object.keys(scene.allocations(POOL) ?? {}).length, 3);
  assertEquals(scene.reservations().length, 3);
});

Deno.test("cni cluster-gc releases the address of a deleted claim", async () => {
  await using scene = await startScene();
  scene.api.remove("ipamclaims", "test", "a");
  const { stdout } = await gc(scene);
  assertMatch(stdout, /10\.0\.0\.1 .*IPAMClaim test\/a no longer exists/);
  assertEquals((await gc(scene, ...NOW)).exitCode, 0);
  assertEquals(Object.keys(scene.allocations(POOL) ?? {}), ["2", "3"]);
  assertEquals(scene.reservations(), ["10.0.0.2", "10.0.0.3"]);
});

Deno.test("cni cluster-gc reports a reservation whose finalizer cannot be removed", async () => {
  await using scene = await startScene();
  scene.api.remove("ipamclaims", "test", "a");
  const path = /overlappingrangeipreservations/;
  const fault = scene.api.fault({ method: "PATCH", path, status: 409 });
  const first = await gc(scene, ...NOW);
  assertEquals(first.exitCode, 1);
  assertMatch(
    first.stdout,
    /kept 10\.0\.0\.1 .*finalizers .* cannot be removed/,
  );
  fault.clear();
  assertEquals((await gc(scene, ...NOW)).exitCode, 0);
  assertEquals(scene.reservations(), ["10.0.0.2", "10.0.0.3"]);
});

Deno.test("cni cluster-gc keeps the address of a running pod whose claim was deleted", async (t) => {
  await eachRow(t, Object.entries(EVIDENCE), async ([, evidence]) => {
    await using scene = await startScene();
    scene.api.remove("ipamclaims", "test", "a");
    const pod = evidence(["10.0.0.1"]);
    putRunningPod(scene, "vm", pod);
    await gc(scene, ...NOW);
    assertEquals(Object.keys(scene.allocations(POOL) ?? {}), ["1", "2", "3"]);
    assertEquals(scene.reservations().length, 3);
    putRunningPod(scene, "vm", { ...pod, phase: "Succeeded" });
    await gc(scene, ...NOW);
    assertEquals(Object.keys(scene.allocations(POOL) ?? {}), ["2", "3"]);
  });
});

Deno.test("cni cluster-gc keeps the address of a claim that was deleted and created again", async () => {
  await using scene = await startScene();
  scene.api.remove("ipamclaims", "test", "a");
  putIpamClaim(scene, "a");
  await scene.add(RANGE, withClaim("a", { pod: "a" }));
  const [address = ""] = claimStatus(scene, "a").ips;
  assertEquals(address, "10.0.0.4/24");
  await gc(scene, ...NOW);
  assertEquals(Object.keys(scene.allocations(POOL) ?? {}), ["2", "3", "4"]);
  assertEquals(scene.allocations(POOL)?.["4"], claimRecord(scene, "a"));
});

Deno.test("cni cluster-gc keeps all addresses if claims cannot be listed", async () => {
  await using scene = await startScene();
  scene.api.remove("ipamclaims", "test", "a");
  scene.api.uninstall("ipamclaims");
  const { stderr } = await gc(scene, ...NOW);
  assertMatch(stderr, /Keeping the addresses of IPAMClaims/);
  assertEquals(Object.keys(scene.allocations(POOL) ?? {}), ["1", "2", "3"]);
});

Deno.test("cni cluster-gc renews a claim's reservation that was deleted", async () => {
  await using scene = await startScene();
  await deleteReservation(scene, "10.0.0.1");
  // The finalizer keeps it, so another range cannot take the address.
  assertEquals(scene.reservations().length, 3);
  const narrow = { range: "10.0.0.0/28" };
  assertEquals(await scene.add(narrow, { pod: "other" }), ["10.0.0.4/28"]);
  await scene.del(narrow, { pod: "other" });
  const { stdout } = await gc(scene, ...NOW, "--json");
  assertEquals(JSON.parse(stdout).renewed, ["10.0.0.1"]);
  const { metadata } = scene.api.find(RESERVATIONS, POOLS, "10.0.0.1") ?? {};
  assertEquals(metadata?.["deletionTimestamp"], undefined);
  assertEquals(metadata?.["finalizers"], ["cni.dev/ipam-claim"]);
  // The claim's next pod gets the address without a new reservation.
  assertEquals(await scene.add(RANGE, withClaim("a", { pod: "a" })), [
    "10.0.0.1/24",
  ]);
});

Deno.test("cni cluster-gc reports a claim's reservation that it cannot renew", async () => {
  await using scene = await startScene();
  for (const ip of ["10.0.0.1", "10.0.0.2"]) await deleteReservation(scene, ip);
  const path = /overlappingrangeipreservations\/10\.0\.0\.1/;
  scene.api.fault({ method: "PATCH", path, status: 403 });
  const { stdout, exitCode } = await gc(scene, ...NOW, "--json");
  const { renewed, kept } = JSON.parse(stdout);
  assertEquals([exitCode, renewed], [1, ["10.0.0.2"]]);
  assertEquals(kept.map(({ what }: { what: string }) => what), ["10.0.0.1"]);
});

Deno.test("cni cluster-gc --dry-run shows each persistent address with its pod and expiry", async () => {
  await using scene = await WhereaboutsScene.start();
  const named = { ...RANGE, stay: "name", stayTime: "10m" };
  await scene.add(named, { pod: "web" });
  await scene.del(named, { pod: "web" });
  putIpamClaim(scene, "db-0", { owner: setOf("db") });
  const evidence = { controller: setOf("db") };
  await scene.add(RANGE, withClaim("db-0", { pod: "db-0" }, evidence));
  const { held } = JSON.parse((await gc(scene, "--json")).stdout);
  const [web, db] = held;
  assertEquals([web.claim, web.owner, web.pod], ["test/web.net.net1", "", ""]);
  assertEquals(Date.parse(web.until) - Date.parse(web.since), 600_000);
  assertEquals(db, {
    ip: "10.0.0.2",
    pool: POOL,
    claim: "test/db-0",
    pod: "test/db-0",
    owner: "StatefulSet/db",
    since: "",
    until: "",
    why: "it is reserved for the IPAMClaim of StatefulSet db",
  });
  const { stdout } = await gc(scene, "--dry-run", "--wide");
  assertMatch(
    stdout,
    /10\.0\.0\.1 .*which no pod has used since \S+Z, until \S+Z/,
  );
});

function release(
  { kubeconfig }: WhereaboutsScene,
  ...args: string[]
): ReturnType<typeof runCni> {
  return runCni("release", "--kubeconfig", kubeconfig, ...args);
}

Deno.test("cni release gives the claim's next pod another address", async () => {
  await using scene = await WhereaboutsScene.start();
  putIpamClaim(scene, "vm");
  await scene.add(RANGE, withClaim("vm", { pod: "vm" }));
  putRunningPod(scene, "vm");
  const used = await release(scene, "test/vm", "--yes");
  assertEquals(used.exitCode, 1);
  assertMatch(used.stderr, /pod "test\/vm" uses IPAMClaim "test\/vm"/);
  scene.api.removePod("test", "vm");
  // Without a terminal there is no prompt.
  const asked = await release(scene, "test/vm");
  assertMatch(asked.stderr, /use --yes, or a terminal/);
  assertEquals(scene.reservations(), ["10.0.0.1"]);
  const { stdout, exitCode } = await release(scene, "test/vm", "--yes");
  assertEquals(exitCode, 0);
  assertMatch(stdout, /released 10\.0\.0\.1 of IPAMClaim test\/vm/);
  assertEquals(scene.allocations(POOL), {});
  assertEquals(scene.reservations(), []);
  assertEquals(claimStatus(scene, "vm").ips, undefined);
  await scene.add(RANGE, { pod: "other" });
  assertEquals(await scene.add(RANGE, withClaim("vm", { pod: "vm" })), [
    "10.0.0.2/24",
  ]);
});

Deno.test("cni release keeps the address of a running pod whose claim was deleted", async (t) => {
  await eachRow(t, Object.entries(EVIDENCE), async ([, evidence]) => {
    await using scene = await startScene();
    scene.api.remove("ipamclaims", "test", "a");
    putRunningPod(scene, "vm", evidence(["10.0.0.1"]));
    const { stderr, exitCode } = await release(scene, "test/a", "--yes");
    assertEquals(exitCode, 1);
    assertMatch(stderr, /pod "test\/vm" uses IPAMClaim "test\/a"/);
    assertEquals(Object.keys(scene.allocations(POOL) ?? {}), ["1", "2", "3"]);
    scene.api.removePod("test", "vm");
    assertEquals((await release(scene, "test/a", "--yes")).exitCode, 0);
    assertEquals(Object.keys(scene.allocations(POOL) ?? {}), ["2", "3"]);
  });
});

Deno.test("cni release releases the records of deleted claims, and refuses other names", async () => {
  await using scene = await WhereaboutsScene.start();
  putIpamClaim(scene, "vm");
  await scene.add(RANGE, withClaim("vm", { pod: "vm" }));
  scene.api.remove("ipamclaims", "test", "vm");
  assertEquals((await release(scene, "test/vm", "--yes")).exitCode, 0);
  assertEquals(scene.allocations(POOL), {});
  assertEquals(scene.reservations(), []);
  const { stderr, exitCode } = await release(scene, "test/vm", "--yes");
  assertEquals(exitCode, 0);
  assertMatch(stderr, /IPAMClaim test\/vm has no addresses/);
  assertMatch(
    (await release(scene, "a/b/c", "--yes")).stderr,
    /is not NAMESPACE/,
  );
});
