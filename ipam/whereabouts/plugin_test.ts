/**
 * whereabouts alongside other writers, with an API server that fails, and in
 * pools that upstream whereabouts wrote.
 */

import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { AsyncLocalStorage } from "node:async_hooks";
import type { JsonObject } from "../../base/json/json.ts";
import { enableChangeChecks, withChangeCheck } from "../../ffi/change_check.ts";
import { openKubeClient } from "../../kube/client.ts";
import { KubeError } from "../../kube/kube_error.ts";
import type { KubeRequest } from "../../kube/request.ts";
import type { FaultRule } from "../../kube/testing/kube_api.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { POOLS, WhereaboutsScene } from "./testing/scene.ts";

const RANGE = { range: "10.0.0.0/24" };
const POOL = "10.0.0.0-24";
const OFF = { ...RANGE, enable_overlapping_ranges: false };

/** A record as the reference writes it. */
function record(
  pod: string,
  id = `id-${pod}`,
): { id: string; podref: string; ifname: string } {
  return { id, podref: `test/${pod}`, ifname: "net1" };
}

Deno.test("whereabouts sends three requests for ADD and two for DEL", async (t) => {
  await using scene = await WhereaboutsScene.start();
  await scene.add(RANGE, { pod: "first" });
  scene.takeRequests();
  await t.step("ADD", async () => {
    await scene.add(RANGE);
    assertEquals(scene.takeRequests(), [
      `GET ippools/${POOL}`,
      `PATCH ippools/${POOL}`,
      "POST overlappingrangeipreservations",
    ]);
  });
  await t.step("DEL", async () => {
    await scene.del(RANGE);
    assertEquals(scene.takeRequests(), [
      `PATCH ippools/${POOL}`,
      "DELETE overlappingrangeipreservations/10.0.0.2",
    ]);
    assertEquals(scene.reservations(), ["10.0.0.1"]);
  });
  await t.step("a second DEL reads the pool", async () => {
    await scene.del(RANGE);
    assertEquals(scene.takeRequests(), [`GET ippools/${POOL}`]);
  });
  await t.step("DEL without an allocation file", async () => {
    await scene.add(RANGE);
    scene.loseAllocationFiles();
    scene.takeRequests();
    await scene.del(RANGE);
    assertEquals(scene.takeRequests(), [
      `GET ippools/${POOL}`,
      "GET overlappingrangeipreservations/10.0.0.2",
      `PATCH ippools/${POOL}`,
      "DELETE overlappingrangeipreservations/10.0.0.2",
    ]);
    assertEquals(scene.reservations(), ["10.0.0.1"]);
  });
  await t.step("ranges that may overlap", async () => {
    await scene.add(OFF);
    await scene.del(OFF);
    assertEquals(scene.takeRequests(), [
      `GET ippools/${POOL}`,
      `PATCH ippools/${POOL}`,
      `PATCH ippools/${POOL}`,
    ]);
  });
  await t.step("the first ADD creates the pool", async () => {
    await scene.add({ range: "10.1.0.0/24" });
    assertEquals(scene.takeRequests(), [
      "GET ippools/10.1.0.0-24",
      "POST ippools",
      "PATCH ippools/10.1.0.0-24",
      "POST overlappingrangeipreservations",
    ]);
  });
  await t.step("STATUS", async () => {
    assertEquals((await scene.call("STATUS", RANGE)).exitCode, 0);
    assertEquals(scene.takeRequests(), [`GET ippools/${POOL}`]);
  });
});

/** What stands for an allocation file, and how to make it. */
const UNUSABLE: [what: string, make: (path: string) => Promise<unknown>][] = [
  ["half a file", (path) => Deno.writeTextFile(path, "{")],
  ["another document", (path) => Deno.writeTextFile(path, '{"claims":[null]}')],
  [
    "no allocations",
    (path) => Deno.writeTextFile(path, '{"namespace":"kube-system"}'),
  ],
  ["a directory", (path) => Deno.mkdir(path)],
  ["a pipe", (path) => new Deno.Command("mkfifo", { args: [path] }).output()],
];

Deno.test("whereabouts releases addresses although allocation files are unusable", async (t) => {
  await eachRow(t, UNUSABLE, async ([what, make]) => {
    await using scene = await WhereaboutsScene.start();
    const directory = `${scene.directory.path}/allocations/net`;
    const spoil = async (id: string): Promise<string> => {
      const path = `${directory}/${id}:net1`;
      await Deno.remove(path);
      await make(path);
      return path;
    };
    await scene.add(RANGE, { pod: "own" });
    await scene.add(RANGE, { pod: "stale" });
    await scene.add(RANGE, { pod: "other" });
    const path = await spoil("id-own");
    const deleted = await scene.call("DEL", RANGE, { pod: "own" });
    assertEquals(deleted.exitCode, 0, deleted.stdout);
    assertStringIncludes(deleted.stderr, path, what);
    assertEquals(Object.keys(scene.allocations(POOL) ?? {}), ["2", "3"]);
    await spoil("id-stale");
    const conf = { "cni.dev/valid-attachments": [] };
    const { exitCode, stdout } = await scene.call("GC", RANGE, { conf });
    assertEquals(exitCode, 0, stdout);
    // GC ignores what is not a file.
    const isFile = ["half a file", "another document", "no allocations"]
      .includes(what);
    const left = isFile ? [] : ["2"];
    assertEquals(Object.keys(scene.allocations(POOL) ?? {}), left);
  });
});

Deno.test("whereabouts releases no address in a superseded call", async () => {
  enableChangeChecks(new AsyncLocalStorage());
  await using scene = await WhereaboutsScene.start();
  await scene.add(RANGE);
  scene.api.fault({ method: "PATCH", status: 503, times: 1 });
  let changes = 0;
  // As after a stop of the process, which waits to try again.
  const check = (): void => {
    if (changes++ > 0) throw new Error("superseded");
  };
  const { exitCode, stdout } = await withChangeCheck(
    check,
    () => scene.call("DEL", RANGE),
  );
  assertEquals(exitCode, 1);
  assertStringIncludes(stdout, "superseded");
  assertEquals(Object.keys(scene.allocations(POOL) ?? {}), ["1"]);
  await scene.del(RANGE);
  assertEquals(scene.allocations(POOL), {});
});

Deno.test("whereabouts allocates from a pool that upstream whereabouts created", async () => {
  await using scene = await WhereaboutsScene.start();
  const old = { id: "id-old", podref: "test/old" };
  scene.putPool(POOL, "10.0.0.0/24", {
    "1": record("a"),
    "2": old,
    "3": record("web-0", "earlier-sandbox"),
    "9": record("b"),
  });
  for (
    const [ip, pod] of [["1", "a"], ["2", "old"], ["3", "web-0"], ["9", "b"]]
  ) {
    scene.putReservation(`10.0.0.${ip}`, `test/${pod}`);
  }
  scene.putReservation("10.0.0.4", "test/elsewhere", "net1");

  assertEquals(await scene.add(RANGE, { pod: "new" }), ["10.0.0.5/24"]);
  assertEquals(await scene.add(RANGE, { pod: "web-0" }), ["10.0.0.3/24"]);
  assertEquals(await scene.add(RANGE, { pod: "old" }), ["10.0.0.2/24"]);
  assertEquals(scene.allocations(POOL), {
    "1": record("a"),
    "2": record("old"),
    "3": record("web-0"),
    "5": record("new"),
    "9": record("b"),
  });
  // DEL of the earlier sandbox runs late.
  await scene.del(RANGE, { pod: "web-0", id: "earlier-sandbox" });
  assertEquals(scene.allocations(POOL)?.["3"], record("web-0"));
  for (const pod of ["a", "b", "old", "web-0", "new"]) {
    await scene.del(RANGE, { pod });
  }
  assertEquals(scene.allocations(POOL), {});
  assertEquals(scene.reservations(), ["10.0.0.4"]);
});

Deno.test("whereabouts writes the same objects as upstream whereabouts", async () => {
  await using scene = await WhereaboutsScene.start();
  await scene.add({ range: "fd00::/64", network_name: "blue" });
  const pool = scene.api.find("ippools", POOLS, "blue-fd00---64");
  const reservation = scene.api.find(
    "overlappingrangeipreservations",
    POOLS,
    "blue-fd00--1",
  );
  assertEquals(
    [pool?.apiVersion, pool?.kind, pool?.["spec"]],
    ["whereabouts.cni.cncf.io/v1alpha1", "IPPool", {
      range: "fd00::/64",
      allocations: {
        "1": { id: "id-p1", podref: "test/p1", ifname: "net1" },
      },
    }],
  );
  assertEquals(
    [reservation?.apiVersion, reservation?.kind, reservation?.["spec"]],
    [
      "whereabouts.cni.cncf.io/v1alpha1",
      "OverlappingRangeIPReservation",
      { podref: "test/p1", ifname: "net1" },
    ],
  );
  const [patch] = scene.api.requestsOf("PATCH");
  assertEquals(JSON.parse(patch?.body ?? ""), [
    { op: "test", path: "/spec/allocations/1", value: null },
    {
      op: "add",
      path: "/spec/allocations/1",
      value: { id: "id-p1", podref: "test/p1", ifname: "net1" },
    },
  ]);
});

Deno.test("whereabouts gives each interface of a pod its own address", async () => {
  await using scene = await WhereaboutsScene.start();
  const wide = { range: "10.0.0.0/24" };
  const narrow = { range: "10.0.0.0/28" };
  assertEquals(await scene.add(wide, { ifName: "net1" }), ["10.0.0.1/24"]);
  assertEquals(await scene.add(wide, { ifName: "net2" }), ["10.0.0.2/24"]);
  assertEquals(await scene.add(narrow, { ifName: "net3" }), ["10.0.0.3/28"]);
  const both = { ...wide, ipRanges: [narrow] };
  assertEquals(await scene.add(both, { pod: "p2" }), [
    "10.0.0.4/24",
    "10.0.0.5/28",
  ]);
  assertEquals(await scene.add(both, { pod: "p2" }), [
    "10.0.0.4/24",
    "10.0.0.5/28",
  ]);
  await scene.del(wide, { ifName: "net1" });
  assertEquals(scene.reservations(), [
    "10.0.0.2",
    "10.0.0.3",
    "10.0.0.4",
    "10.0.0.5",
  ]);
});

Deno.test("whereabouts refuses a range that ends before it starts", async (t) => {
  await using scene = await WhereaboutsScene.start();
  const message =
    "error at storage engine: range ends at 10.0.0.5, before its start 10.0.0.9";
  const ranges: readonly JsonObject[] = [
    { range: "10.0.0.9-10.0.0.5/24" },
    { range: "10.0.0.0/24", range_start: "10.0.0.9", range_end: "10.0.0.5" },
    { ...RANGE, ipRanges: [{ range: "10.0.0.9-10.0.0.5/24" }] },
  ];
  await eachRow(t, ranges, async (range) => {
    for (const command of ["ADD", "STATUS"]) {
      const { code, msg } = await scene.failure(range, {}, command);
      assertEquals([command, code, msg], [command, 7, message]);
    }
    assertEquals(scene.reservations(), []);
    await scene.del(range);
  }, (range) => JSON.stringify(range));
});

Deno.test("whereabouts refuses a gateway of the other family", async () => {
  await using scene = await WhereaboutsScene.start();
  const addresses = [{ address: "10.0.0.7/24", gateway: "fd00::1" }];
  const { code, msg } = await scene.failure({ addresses });
  assertEquals(code, 7);
  assertEquals(
    msg,
    "error at storage engine: gateway fd00::1 of 10.0.0.7/24 is not an IPv4 address",
  );
});

Deno.test("whereabouts: an attachment can have the same offset in two pools", async (t) => {
  const dual = { ...RANGE, ipRanges: [{ range: "fd00::/64" }] };
  const both = ["10.0.0.1/24", "fd00::1/64"];
  await t.step("a repeated ADD, and one of a new sandbox", async () => {
    await using scene = await WhereaboutsScene.start();
    assertEquals(await scene.add(dual), both);
    assertEquals(await scene.add(dual), both);
    assertEquals(await scene.add(dual, { id: "new" }), both);
    const records = { "1": record("p1", "new") };
    assertEquals(scene.allocations(POOL), records);
    assertEquals(scene.allocations("fd00---64"), records);
  });
  await t.step("an ADD whose response was lost", async () => {
    await using scene = await WhereaboutsScene.start();
    const fault = { method: "PATCH", path: /fd00/, times: 1 } as const;
    scene.api.fault({ ...fault, drop: "after" });
    assertEquals(await scene.add(dual), both);
    await scene.del(dual);
    assertEquals(scene.allocations("fd00---64"), {});
  });
});

Deno.test("whereabouts releases its new allocations if a later range is full", async () => {
  await using scene = await WhereaboutsScene.start();
  const full = { range: "10.9.0.0/30", exclude: ["10.9.0.0/30"] };
  const { code } = await scene.failure({ ...RANGE, ipRanges: [full] });
  assertEquals(code, 11);
  assertEquals(scene.allocations(POOL), {});
  assertEquals(scene.reservations(), []);
});

Deno.test("whereabouts DEL does not touch another pod's reservation", async () => {
  await using scene = await WhereaboutsScene.start();
  scene.putPool(POOL, "10.0.0.0/24", { "1": record("p1") });
  scene.putReservation("10.0.0.1", "test/other", "net1");
  await scene.del(RANGE);
  assertEquals(scene.allocations(POOL), {});
  assertEquals(scene.reservations(), ["10.0.0.1"]);
  // Nor one that was created anew after ADD.
  assertEquals(await scene.add(OFF), ["10.0.0.1/24"]);
  await scene.del(OFF);
  assertEquals(await scene.add(RANGE), ["10.0.0.2/24"]);
  const old = "overlappingrangeipreservations";
  scene.api.remove(old, POOLS, "10.0.0.2");
  scene.putReservation("10.0.0.2", "test/other", "net1");
  await scene.del(RANGE);
  assertEquals(scene.reservations(), ["10.0.0.1", "10.0.0.2"]);
});

Deno.test("whereabouts DEL releases all ranges, and ranges of an earlier configuration", async () => {
  await using scene = await WhereaboutsScene.start();
  const two = { range: "10.0.0.0/24", ipRanges: [{ range: "10.1.0.0/24" }] };
  scene.putPool("10.1.0.0-24", "10.1.0.0/24", { "1": record("p1") });
  await scene.del(two);
  assertEquals(scene.allocations("10.1.0.0-24"), {});
  await scene.add(two);
  await scene.del({ range: "10.2.0.0/24" });
  assertEquals(scene.allocations(POOL), {});
  assertEquals(scene.allocations("10.1.0.0-24"), {});
  assertEquals(scene.reservations(), []);
});

Deno.test("whereabouts DEL fails if it cannot release the address", async () => {
  await using scene = await WhereaboutsScene.start();
  await scene.add(RANGE);
  scene.api.forbid("patch", "ippools");
  const { code, msg, details } = await scene.failure(RANGE, {}, "DEL");
  assertEquals(code, 7);
  assertMatch(msg, /cannot patch resource "ippools"/);
  assertMatch(`${details}`, /Cannot release offset 1 of IPPool "10.0.0.0-24"/);
  scene.api.allow("patch", "ippools");
  await scene.del(RANGE);
  assertEquals(scene.allocations(POOL), {});
});

Deno.test("whereabouts DEL succeeds once the kubeconfig is uninstalled", async () => {
  await using scene = await WhereaboutsScene.start();
  const { exitCode, stderr } = await scene.call("DEL", {
    ...RANGE,
    kubernetes: {},
  });
  assertEquals(exitCode, 0);
  assertMatch(stderr, /Addresses are not released/);
});

Deno.test("whereabouts DEL without its kubeconfig succeeds and keeps the address for GC", async () => {
  await using scene = await WhereaboutsScene.start();
  await scene.add(RANGE);
  const away = `${scene.kubeconfig}.away`;
  await Deno.rename(scene.kubeconfig, away);
  const { exitCode, stderr } = await scene.call("DEL", RANGE);
  assertEquals(exitCode, 0);
  assertMatch(stderr, /Addresses are not released.*does not exist/);
  // ADD must not take that for a success.
  assertEquals((await scene.failure(RANGE, { pod: "p2" })).code, 7);
  await Deno.rename(away, scene.kubeconfig);
  assertEquals(scene.allocations(POOL), { "1": record("p1") });
  const conf = { "cni.dev/valid-attachments": [] };
  assertEquals((await scene.call("GC", RANGE, { conf })).exitCode, 0);
  assertEquals(scene.allocations(POOL), {});
  assertEquals(scene.reservations(), []);
});

Deno.test("whereabouts DEL fails while the flat file is being written", async () => {
  await using scene = await WhereaboutsScene.start();
  await scene.add(RANGE);
  const file = `${scene.kubeconfig}.conf`;
  const flat = { ...RANGE, configuration_path: file };
  for (const text of ["", '{"log_level": "deb']) {
    await Deno.writeTextFile(file, text);
    const { code, msg } = await scene.failure(flat, {}, "DEL");
    assertEquals(code, 7);
    assertMatch(msg, /Cannot parse ".*\.conf"/);
  }
  await Deno.writeTextFile(file, "{}");
  await scene.del(flat);
  assertEquals(scene.allocations(POOL), {});
});

Deno.test("whereabouts DEL succeeds after an ADD that found no slice", async () => {
  await using scene = await WhereaboutsScene.start();
  const sliced = { ...RANGE, node_slice_size: "/31" };
  const call = { env: { NODENAME: "n" } };
  const fails = async (code: number): Promise<void> => {
    assertEquals((await scene.failure(sliced, call)).code, code);
    const { exitCode, stderr } = await scene.call("DEL", sliced, call);
    assertEquals(exitCode, 0);
    assertMatch(stderr, /No address to release/);
  };
  await fails(11);
  scene.api.put("nodeslicepools", {
    metadata: { namespace: POOLS, name: "net" },
    spec: { range: "10.0.0.0/24", sliceSize: "/31" },
    status: { allocations: [{ nodeName: "n", sliceRange: "10.0.0.0/31" }] },
  });
  await fails(7);
});

Deno.test("whereabouts DEL succeeds once the CRDs are uninstalled", async () => {
  await using scene = await WhereaboutsScene.start();
  await scene.add(RANGE);
  scene.api.uninstall("ippools");
  await scene.del(RANGE);
  await scene.del(RANGE, { pod: "p2" });
});

Deno.test("whereabouts CHECK compares the pool with prevResult", async () => {
  await using scene = await WhereaboutsScene.start();
  const { json } = await scene.call("ADD", RANGE);
  const conf = { prevResult: json };
  assertEquals((await scene.call("CHECK", RANGE, { conf })).stdout, "");
  const other = await scene.call("CHECK", RANGE, { conf, id: "other" });
  assertEquals(other.json.code, 999);
  await scene.del(RANGE);
  const { code, msg } = await scene.failure(RANGE, { conf }, "CHECK");
  assertEquals(code, 999);
  assertMatch(msg, /IPPool "10.0.0.0-24" has no address of prevResult/);
});

Deno.test("whereabouts STATUS fails without the CRDs or permission", async () => {
  await using scene = await WhereaboutsScene.start();
  scene.api.forbid("get", "ippools");
  assertEquals((await scene.failure(RANGE, {}, "STATUS")).code, 50);
  scene.api.allow("get", "ippools");
  scene.api.uninstall("ippools");
  assertEquals((await scene.failure(RANGE, {}, "STATUS")).code, 50);
});

Deno.test("whereabouts GC releases the addresses of stale attachments of this node", async () => {
  await using scene = await WhereaboutsScene.start();
  await scene.add(RANGE, { pod: "a" });
  await scene.add(RANGE, { pod: "b" });
  scene.putPool(POOL, "10.0.0.0/24", {
    ...scene.allocations(POOL),
    "7": record("on-another-node"),
  });
  const valid = [{ containerID: "id-b", ifname: "net1" }];
  const gc = (conf: JsonObject): Promise<unknown> =>
    scene.call("GC", RANGE, { pod: "", conf });
  await gc({});
  assertEquals(Object.keys(scene.allocations(POOL) ?? {}), ["1", "2", "7"]);
  await gc({ "cni.dev/valid-attachments": valid });
  assertEquals(Object.keys(scene.allocations(POOL) ?? {}), ["2", "7"]);
  assertEquals(scene.reservations(), ["10.0.0.2"]);
  // A file without content, as a power loss leaves it.
  scene.write("allocations/net/id-b:net1", "");
  await gc({ "cni.dev/valid-attachments": [] });
  assertEquals(Object.keys(scene.allocations(POOL) ?? {}), ["7"]);
});

Deno.test("whereabouts GC releases eight attachments at the same time", async () => {
  await using scene = await WhereaboutsScene.start();
  for (const pod of "abcdefghi") await scene.add(RANGE, { pod });
  const delayMs = 2000;
  scene.api.fault({ method: "DELETE", delayMs });
  const conf = { "cni.dev/valid-attachments": [] };
  await scene.call("GC", RANGE, { pod: "", conf });
  assertEquals([scene.allocations(POOL), scene.reservations()], [{}, []]);
  const [first = NaN, ...others] = scene.api.requestsOf("DELETE")
    .map(({ at }) => at);
  const waits = others.map((at) => at - first >= delayMs);
  assertEquals(waits, [...Array(7).fill(false), true]);
});

Deno.test("whereabouts ADD and DEL retry requests to a failing API server", async (t) => {
  const pools = /ippools/;
  const reservations = /overlapping/;
  const rows: [string, FaultRule][] = [
    ["false conflicts", { method: "PATCH", status: 422, times: 3 }],
    ["409 on PATCH", { method: "PATCH", status: 409, times: 3 }],
    ["429", { status: 429, times: 1, retryAfter: 0 }],
    ["503", { method: "GET", status: 503, times: 1 }],
    ["a lost answer to PATCH", { method: "PATCH", drop: "after", times: 1 }],
    ["a lost PATCH", { method: "PATCH", drop: "before", times: 1 }],
    ["half an answer to PATCH", {
      method: "PATCH",
      drop: "mid-body",
      times: 1,
    }],
    ["a lost answer to the pool's POST", {
      method: "POST",
      path: pools,
      drop: "after",
      times: 1,
    }],
    ["a lost answer to the reservation's POST", {
      method: "POST",
      path: reservations,
      drop: "after",
      times: 1,
    }],
    ["a lost POST of the reservation", {
      method: "POST",
      path: reservations,
      drop: "before",
      times: 1,
    }],
    ["a lost answer to DELETE", {
      method: "DELETE",
      drop: "after",
      times: 1,
    }],
  ];
  const calls = [{}, { args: "IP=10.0.0.9/24" }];
  const cases = rows.flatMap((row) => calls.map((call) => ({ row, call })));
  await eachRow(t, cases, async ({ row: [, fault], call }) => {
    await using scene = await WhereaboutsScene.start();
    const during = async (work: Promise<unknown>): Promise<void> => {
      await work;
      scene.api.clearFaults();
    };
    scene.api.fault(fault);
    await during(scene.add(RANGE, call));
    // After a conflict, it is any of the first addresses.
    const [key] = "args" in call
      ? ["9"]
      : Object.keys(scene.allocations(POOL) ?? {});
    assertEquals(scene.allocations(POOL), { [`${key}`]: record("p1") });
    assertEquals(scene.reservations(), [`10.0.0.${key}`]);
    scene.api.fault(fault);
    await during(scene.del(RANGE));
    assertEquals(scene.allocations(POOL), {});
    assertEquals(scene.reservations(), []);
  }, ({ row: [name], call: { args = "" } }) => `${name} ${args}`);
});

Deno.test("whereabouts ADD reports why the API server refuses to create an object", async (t) => {
  const message = "Internal error occurred: failed calling webhook";
  const body = JSON.stringify({ kind: "Status", message });
  await eachRow(t, [
    ["a pool", /ippools/],
    ["a reservation", /overlapping/],
  ], async ([, path]) => {
    await using scene = await WhereaboutsScene.start();
    const fault = scene.api.fault({ method: "POST", path, status: 500, body });
    const { code, msg } = await scene.failure(RANGE);
    assertEquals(code, 11);
    assertStringIncludes(msg, message);
    assert(fault.hits <= 5, `${fault.hits} requests`);
    assertEquals(scene.allocations(POOL) ?? {}, {});
    assertEquals(scene.reservations(), []);
    fault.clear();
    assertEquals(await scene.add(RANGE), ["10.0.0.1/24"]);
  });
});

Deno.test("whereabouts waits for its turn to write, and writes once", async () => {
  await using scene = await WhereaboutsScene.start();
  scene.api.fault({ method: "PATCH", times: 1, delayMs: 1600 });
  await scene.add(RANGE);
  assertEquals(scene.api.requestsOf("PATCH").length, 1);
});

Deno.test("whereabouts waits for the API server up to the configured time", async (t) => {
  await using scene = await WhereaboutsScene.start();
  await scene.add(OFF, { pod: "first" });
  scene.api.fault({ delayMs: 600 });
  const rows = [["ADD", 0.3, 11], ["DEL", 0.3, 11], ["DEL", 60, undefined]];
  await eachRow(t, rows, async ([command, apiTimeoutSeconds, code]) => {
    const conf = { ...OFF, apiTimeoutSeconds } as JsonObject;
    const pod = command === "ADD" ? "second" : "first";
    const { json } = await scene.call(`${command}`, conf, { pod });
    assertEquals(json?.code, code);
  }, ([command, seconds]) => `${command}, ${seconds} s`);
});

Deno.test("whereabouts fails if the API server refuses every change", async () => {
  await using scene = await WhereaboutsScene.start();
  await scene.add(RANGE, { pod: "first" });
  scene.api.fault({ method: "PATCH", status: 422 });
  const { code, msg } = await scene.failure(RANGE);
  assertEquals(code, 7);
  assertMatch(msg, /refuses to change IPPool "10.0.0.0-24"/);
  // DEL fails, so the runtime repeats it: the allocation file remains.
  const del = await scene.failure(RANGE, { pod: "first" }, "DEL");
  assertEquals(del.code, 11);
  assertMatch(del.msg, /refuses to release offset 1 of IPPool "10.0.0.0-24"/);
  assertEquals(scene.allocations(POOL), { "1": record("first") });
  scene.api.clearFaults();
  await scene.del(RANGE, { pod: "first" });
  assertEquals(scene.allocations(POOL), {});
});

Deno.test("whereabouts releases the address if its reservation cannot be created", async () => {
  await using scene = await WhereaboutsScene.start();
  scene.api.forbid("create", "overlappingrangeipreservations");
  assertEquals((await scene.failure(RANGE)).code, 7);
  assertEquals(scene.allocations(POOL), {});
});

/** Runs the requests of a client: can drop, delay or change them. */
type Intercept = <T>(
  request: KubeRequest,
  send: () => Promise<T>,
) => Promise<T>;

function intercept(scene: WhereaboutsScene, run: Intercept): void {
  scene.useClients(async (options) => {
    const client = await openKubeClient(options);
    assert(client);
    return {
      request: (request, limits) =>
        run(request, () => client.request(request, limits)),
      listPages: client.listPages.bind(client),
      [Symbol.dispose]: () => client[Symbol.dispose](),
    };
  });
}

Deno.test("whereabouts releases the reservation whose creation timed out", async () => {
  await using scene = await WhereaboutsScene.start();
  intercept(scene, async ({ method, path }, send) => {
    const answer = await send();
    const isLate = method === "POST" && path.includes("overlapping");
    if (isLate) throw new KubeError("late", { status: 0, isTimeout: true });
    return answer;
  });
  assertEquals((await scene.failure(RANGE)).code, 11);
  assertEquals(scene.allocations(POOL), {});
  assertEquals(scene.reservations(), []);
});

Deno.test("whereabouts: a sandbox keeps its reservation during a slow DEL of the earlier sandbox", async () => {
  await using scene = await WhereaboutsScene.start();
  await scene.add(RANGE);
  let isFirst = true;
  intercept(scene, async ({ method }, send) => {
    if (method === "DELETE" && isFirst) {
      isFirst = false;
      await scene.add(RANGE, { id: "next" });
    }
    return await send();
  });
  await scene.del(RANGE);
  assertEquals(scene.allocations(POOL), { "1": record("p1", "next") });
  assertEquals(scene.reservations(), ["10.0.0.1"]);
});

Deno.test("whereabouts: DEL of a sandbox that took over a requested address releases the reservation", async () => {
  await using scene = await WhereaboutsScene.start();
  const args = "IP=10.0.0.9/24";
  for (const id of ["first", "second"]) {
    assertEquals(await scene.add(RANGE, { id, args }), ["10.0.0.9/24"]);
  }
  await scene.del(RANGE, { id: "first", args });
  assertEquals(scene.reservations(), ["10.0.0.9"]);
  await scene.del(RANGE, { id: "second", args });
  assertEquals(scene.allocations(POOL), {});
  assertEquals(scene.reservations(), []);
});

Deno.test("whereabouts: a pod that requests a different address than before gets it", async () => {
  await using scene = await WhereaboutsScene.start();
  const before = { id: "before", args: "IP=10.0.0.5/24" };
  const now = { id: "now", args: "IP=10.0.0.6/24" };
  assertEquals(await scene.add(RANGE, before), ["10.0.0.5/24"]);
  assertEquals(await scene.add(RANGE, now), ["10.0.0.6/24"]);
  assertEquals(await scene.add(RANGE, now), ["10.0.0.6/24"]);
  // The earlier sandbox may still run, on a node that does not answer.
  assertEquals(scene.allocations(POOL), {
    "5": record("p1", "before"),
    "6": record("p1", "now"),
  });
  assertEquals(scene.reservations(), ["10.0.0.5", "10.0.0.6"]);
  const other = { pod: "p2", args: before.args };
  assertEquals((await scene.failure(RANGE, other)).code, 11);
  // A sandbox has a single address.
  const { code, msg } = await scene.failure(RANGE, {
    ...now,
    args: "IP=10.0.0.7/24",
  });
  assertEquals(code, 11);
  assertMatch(msg, /address 10\.0\.0\.7: IPPool .* has 10\.0\.0\.\d for it/);
  await scene.del(RANGE, before);
  assertEquals(scene.allocations(POOL), { "6": record("p1", "now") });
  assertEquals(scene.reservations(), ["10.0.0.6"]);
  await scene.del(RANGE, now);
  assertEquals(scene.allocations(POOL), {});
  assertEquals(scene.reservations(), []);
});

Deno.test("whereabouts: 64 concurrent ADDs get 64 addresses, and DELs release them", async () => {
  await using scene = await WhereaboutsScene.start();
  using client = await openKubeClient({
    kubeconfig: scene.kubeconfig,
    env: {},
  });
  assert(client);
  scene.useClients(() =>
    Promise.resolve({
      request: client.request.bind(client),
      listPages: client.listPages.bind(client),
      [Symbol.dispose]: () => {},
    })
  );
  const pods = Array.from({ length: 64 }, (_, index) => `p${index}`);
  const worsen = (): void => {
    scene.api.clearFaults();
    scene.api.fault({ method: "PATCH", drop: "after", times: 7 });
    scene.api.fault({ method: "PATCH", status: 409, times: 5 });
    scene.api.fault({ method: "POST", drop: "after", times: 5 });
    scene.api.fault({ status: 429, retryAfter: 0, times: 10 });
    scene.api.fault({ method: "GET", drop: "before", times: 3 });
  };
  worsen();
  const taken =
    (await Promise.all(pods.map((pod) => scene.add(RANGE, { pod }))))
      .flat();
  assertEquals(new Set(taken).size, pods.length, "no address twice");
  const allocations = Object.entries(scene.allocations(POOL) ?? {});
  const recorded = allocations.map(([key, { podref }]) =>
    `${podref} 10.0.0.${key}/24`
  );
  const live = pods.map((pod, index) => `test/${pod} ${taken[index]}`);
  assertEquals(recorded.sort(), live.sort(), "the pool is what is attached");
  const reserved = taken.map((address) => address.replace("/24", ""));
  assertEquals(scene.reservations(), reserved.sort());

  // Half of the pods end while new pods start.
  worsen();
  const [ending, staying] = [pods.slice(0, 32), pods.slice(32)];
  const coming = ending.map((pod) => `new-${pod}`);
  await Promise.all([
    ...ending.map((pod) => scene.del(RANGE, { pod })),
    ...coming.map((pod) => scene.add(RANGE, { pod })),
  ]);
  const owners = Object.values(scene.allocations(POOL) ?? {})
    .map(({ podref }) => podref);
  assertEquals(
    owners.sort(),
    [...staying, ...coming].map((pod) => `test/${pod}`).sort(),
  );
  assertEquals(
    scene.reservations(),
    Object.keys(scene.allocations(POOL) ?? {}).map((key) => `10.0.0.${key}`)
      .sort(),
  );
});

Deno.test("whereabouts: two concurrent ADDs of an interface return the same address", async () => {
  await using scene = await WhereaboutsScene.start();
  const results = await Promise.all([1, 2, 3, 4].map(() => scene.add(RANGE)));
  assertEquals(new Set(results.flat()).size, 1);
  assertEquals(Object.values(scene.allocations(POOL) ?? {}), [record("p1")]);
});
