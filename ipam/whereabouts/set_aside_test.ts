/** whereabouts and addresses that other machines have. */

import { assertEquals, assertMatch } from "@std/assert";
import { CONFLICTS } from "../../cni/config/types.ts";
import { readSetAside } from "./inspect.ts";
import { putIpamClaim, withClaim } from "./testing/claims.ts";
import { POOLS, WhereaboutsScene } from "./testing/scene.ts";
import { runCni } from "../../tests/_harness/tool_call.ts";

const RANGE = { range: "10.0.0.0/24" }, POOL = "10.0.0.0-24";
const MAC = "02:00:00:00:00:09";
const ASIDE = new RegExp(`^conflict/.*Z/${MAC}$`);

/** The conflicts of an ADD. */
function having(...ips: readonly string[]): {
  conf: { [CONFLICTS]: { ip: string; mac: string }[] };
} {
  return { conf: { [CONFLICTS]: ips.map((ip) => ({ ip, mac: MAC })) } };
}

/** Reads who has which offset of a pool. */
function read(scene: WhereaboutsScene, pool = POOL): Record<string, string> {
  return Object.fromEntries(
    Object.entries(scene.allocations(pool) ?? {}).map(([key, value]) => [
      key,
      ASIDE.test(value.id) && value.podref === "" ? "aside" : value.podref,
    ]),
  );
}

/** Makes a record older. */
function age(scene: WhereaboutsScene, key: string): void {
  const allocations = { ...scene.allocations(POOL) };
  const then = new Date(Date.now() - 601_000).toISOString();
  allocations[key] = {
    id: `conflict/${then}/${MAC}`,
    podref: "",
    ifname: "net1",
  };
  scene.putPool(POOL, "10.0.0.0/24", allocations);
}

Deno.test("whereabouts replaces an address that another machine uses", async (t) => {
  await using scene = await WhereaboutsScene.start();
  await scene.add(RANGE);
  await t.step("the conflicting address is set aside", async () => {
    assertEquals(await scene.add(RANGE, having("10.0.0.1")), ["10.0.0.2/24"]);
    assertEquals(read(scene), { "1": "aside", "2": "test/p1" });
    assertEquals(scene.reservations(), ["10.0.0.2"]);
  });
  await t.step("no other pod gets the address", async () => {
    assertEquals(await scene.add(RANGE, { pod: "p2" }), ["10.0.0.3/24"]);
  });
  await t.step("DEL does not release the address", async () => {
    await scene.del(RANGE);
    assertEquals(read(scene), { "1": "aside", "3": "test/p2" });
    assertEquals(scene.reservations(), ["10.0.0.3"]);
  });
  await t.step("a pod gets the address after ten minutes", async () => {
    age(scene, "1");
    assertEquals(await scene.add(RANGE, { pod: "p3" }), ["10.0.0.1/24"]);
    assertEquals(read(scene), { "1": "test/p3", "3": "test/p2" });
  });
});

Deno.test("whereabouts keeps the address of the other family", async () => {
  await using scene = await WhereaboutsScene.start();
  const dual = { ipRanges: [RANGE, { range: "fd00::/64" }] };
  const [, v6 = ""] = await scene.add(dual);
  assertEquals(await scene.add(dual, having("10.0.0.1")), ["10.0.0.2/24", v6]);
  await scene.del(dual);
  assertEquals(read(scene), { "1": "aside" });
  assertEquals(read(scene, "fd00---64"), {});
  assertEquals(scene.reservations(), []);
});

Deno.test("whereabouts: DEL finds the addresses of an ADD that was killed while it replaced one", async () => {
  await using scene = await WhereaboutsScene.start();
  await scene.add(RANGE);
  await scene.add(RANGE, having("10.0.0.1"));
  // Before the allocation file was written.
  scene.loseAllocationFiles();
  await scene.del(RANGE);
  assertEquals(read(scene), { "1": "aside" });
  assertEquals(scene.reservations(), []);
});

Deno.test("whereabouts sets at most a quarter of a range aside", async () => {
  await using scene = await WhereaboutsScene.start();
  const small = { range: "10.0.0.0/28" };
  const met: string[] = [];
  let [next = ""] = await scene.add(small);
  while (met.length < 13) {
    met.push(next.split("/")[0] ?? "");
    [next = ""] = await scene.add(small, having(...met));
  }
  assertEquals(Object.values(read(scene, "10.0.0.0-28")), [
    "aside",
    "aside",
    "aside",
    "test/p1",
  ]);
  const all = [...met, next.split("/")[0] ?? ""];
  const { code, msg } = await scene.failure(small, having(...all));
  assertEquals(code, 11, msg);
  // A pod without a conflict gets an address that is set aside.
  for (let pod = 2; pod < 16; pod++) await scene.add(small, { pod: `p${pod}` });
  assertEquals(
    Object.values(read(scene, "10.0.0.0-28")).includes("aside"),
    false,
  );
});

Deno.test("whereabouts keeps the address of an IPAMClaim", async () => {
  await using scene = await WhereaboutsScene.start();
  putIpamClaim(scene, "vm");
  const call = withClaim("vm", { pod: "vm" });
  await scene.add(RANGE, call);
  const again = { ...call, conf: { ...call.conf, ...having("10.0.0.1").conf } };
  assertEquals(await scene.add(RANGE, again), ["10.0.0.1/24"]);
});

Deno.test("cni cluster-gc does not list addresses that are set aside", async () => {
  await using scene = await WhereaboutsScene.start();
  await scene.add(RANGE);
  await scene.add(RANGE, having("10.0.0.1"));
  await scene.del(RANGE);
  const gc = async (): Promise<{
    stale: { why: string }[];
    held: { ip: string; why: string }[];
  }> => {
    const { stdout } = await runCni(
      "cluster-gc",
      "--kubeconfig",
      scene.kubeconfig,
      "--namespace",
      POOLS,
      "--json",
    );
    return JSON.parse(stdout);
  };
  const { stale, held } = await gc();
  assertEquals(stale, []);
  assertEquals(held.map(({ ip }) => ip), ["10.0.0.1"]);
  assertMatch(held[0]?.why ?? "", /^it is set aside until \S+Z: 02:.* has it$/);
  age(scene, "1");
  const [over] = (await gc()).stale;
  assertMatch(over?.why ?? "", /^it was set aside because of 02:.* until /);
});

Deno.test("readSetAside() sends one request per network, and a refusal hides no other network", async () => {
  await using scene = await WhereaboutsScene.start();
  await scene.add(RANGE);
  await scene.add(RANGE, having("10.0.0.1"));
  const refused = { range: "10.1.0.0/24" };
  scene.putPool("10.1.0.0-24", refused.range, {});
  scene.api.fault({ path: /10\.1\.0\.0-24/, status: 403 });
  const sliced = { range: "10.2.0.0/16", node_slice_size: "/24" };
  // Those of as many containers as there are on a node.
  const plugins = Array.from(
    { length: 100 },
    () => [["sliced", sliced], ["refused", refused], ["net", RANGE]] as const,
  )
    .flat().map(([network, ipam]) => ({
      network,
      document: { type: "macvlan", ipam: scene.ipam(ipam) },
    }));
  scene.takeRequests();
  const never = new AbortController().signal;
  const found = await readSetAside(plugins, { NODENAME: "node1" }, never);
  assertEquals(
    found.map(({ network, pool, address, mac }) => [
      network,
      pool,
      address,
      mac,
    ]),
    [["net", POOL, "10.0.0.1", MAC]],
  );
  assertEquals(scene.takeRequests(), [
    "GET nodeslicepools/sliced",
    "GET ippools/10.1.0.0-24",
    `GET ippools/${POOL}`,
  ]);
});

Deno.test("readSetAside() reads a cluster although a different one does not answer", async () => {
  await using silent = await WhereaboutsScene.start();
  await using scene = await WhereaboutsScene.start();
  await scene.add(RANGE);
  await scene.add(RANGE, having("10.0.0.1"));
  silent.api.fault({ delayMs: 60_000 });
  const plugins = [silent, scene].map((one, at) => ({
    network: `net${at}`,
    document: { type: "macvlan", ipam: one.ipam(RANGE) },
  }));
  const { signal } = new AbortController();
  const found = await readSetAside(plugins, {}, signal);
  assertEquals(found.map(({ network }) => network), ["net1"]);
});
