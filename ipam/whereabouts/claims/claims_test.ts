/** whereabouts and IPAMClaims: addresses that outlive their pods. */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { CREATED_BY, MIGRATION_JOB } from "../../../kube/pod_evidence.ts";
import { type KubeClient, openKubeClient } from "../../../kube/client.ts";
import {
  eachAtOnce,
  howOften,
  isLong,
} from "../../../tests/_harness/repetition.ts";
import {
  claimRecord,
  claimStatus,
  instanceOf,
  machineOf,
  putIpamClaim,
  putRunningPod,
  setOf,
  withClaim,
} from "../testing/claims.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import { type PodCall, POOLS, WhereaboutsScene } from "../testing/scene.ts";

/** How many virtual machines are migrated, and how often each. */
const MACHINES = isLong ? 50 : 10;
const MIGRATIONS = Math.ceil(howOften(60) / MACHINES);
const RANGE = { range: "10.0.0.0/24" };
const POOL = "10.0.0.0-24";
const DUAL = { ...RANGE, ipRanges: [{ range: "fd00::/64" }] };

Deno.test("whereabouts sends few requests for a pod with a claim", async (t) => {
  await using scene = await WhereaboutsScene.start();
  await scene.add(RANGE, { pod: "first" });
  putIpamClaim(scene, "vm");
  scene.takeRequests();
  const call = withClaim("vm", { pod: "vm-1" });
  await t.step("the first ADD", async () => {
    await scene.add(RANGE, call);
    assertEquals(scene.takeRequests(), [
      "GET ipamclaims/vm",
      `GET ippools/${POOL}`,
      `PATCH ippools/${POOL}`,
      "POST overlappingrangeipreservations",
      "PATCH ipamclaims/vm/status",
    ]);
  });
  await t.step("DEL", async () => {
    await scene.del(RANGE, call);
    assertEquals(scene.takeRequests(), ["PATCH ipamclaims/vm/status"]);
  });
  const again = [
    "GET ipamclaims/vm",
    `GET ippools/${POOL}`,
    "GET overlappingrangeipreservations/10.0.0.2",
  ];
  await t.step("ADD of the next pod", async () => {
    await scene.add(RANGE, withClaim("vm", { pod: "vm-2" }));
    assertEquals(scene.takeRequests(), [
      ...again,
      "PATCH ipamclaims/vm/status",
    ]);
  });
  await t.step("a repeated ADD of the same sandbox", async () => {
    await scene.add(RANGE, withClaim("vm", { pod: "vm-2" }));
    assertEquals(scene.takeRequests(), again);
  });
  await t.step("ADD of a new sandbox of the pod, without a DEL", async () => {
    await scene.add(RANGE, withClaim("vm", { pod: "vm-2", id: "other" }));
    assertEquals(scene.takeRequests(), [
      ...again,
      "PATCH ipamclaims/vm/status",
    ]);
  });
  const ordinary = [
    `GET ippools/${POOL}`,
    `PATCH ippools/${POOL}`,
    "POST overlappingrangeipreservations",
  ];
  await t.step("a pod without a claim in the network", async () => {
    await scene.add(RANGE, withClaim("", { pod: "plain" }));
    assertEquals(scene.takeRequests(), ordinary);
    await scene.del(RANGE, withClaim("", { pod: "plain" }));
    assertEquals(scene.takeRequests(), [
      `PATCH ippools/${POOL}`,
      "DELETE overlappingrangeipreservations/10.0.0.3",
    ]);
  });
  await t.step("a claim in a network that does not allow it", async () => {
    const call = withClaim("vm", {
      pod: "plain",
      conf: { allowPersistentIPs: false },
    });
    const { exitCode, stderr } = await scene.call("ADD", RANGE, call);
    assertEquals(exitCode, 0);
    assertMatch(stderr, /Ignoring an IPAMClaim/);
    assertEquals(scene.takeRequests(), ordinary);
  });
});

Deno.test("whereabouts: each pod of a claim gets the claim's addresses", async () => {
  await using scene = await WhereaboutsScene.start();
  putIpamClaim(scene, "vm");
  const first = withClaim("vm", { pod: "vm-1" });
  const addresses = await scene.add(DUAL, first);
  assertEquals(addresses, ["10.0.0.1/24", "fd00::1/64"]);
  const { ips, ownerPod, conditions } = claimStatus(scene, "vm");
  assertEquals([ips, ownerPod], [addresses, { name: "vm-1" }]);
  assertEquals(
    conditions.map(({ type, status, reason }: Record<string, string>) => [
      type,
      status,
      reason,
    ]),
    [
      ["cni.dev/Sandbox", "True", "Attached"],
      ["IPsAllocated", "True", "SuccessfulAllocation"],
    ],
  );
  assertEquals(scene.allocations(POOL), { "1": claimRecord(scene, "vm") });
  assertEquals(
    (await scene.call("CHECK", DUAL, {
      ...first,
      conf: {
        ...first.conf,
        prevResult: {
          cniVersion: "1.1.0",
          ips: addresses.map((address) => ({ address })),
        },
      },
    })).exitCode,
    0,
  );
  await scene.del(DUAL, first);
  assertEquals(claimStatus(scene, "vm").ownerPod, undefined);
  for (let other = 0; other < 5; other++) {
    await scene.add(DUAL, { pod: `other-${other}` });
  }
  assertEquals(
    await scene.add(DUAL, withClaim("vm", { pod: "vm-2" })),
    addresses,
  );
  assertEquals(claimStatus(scene, "vm").ownerPod, { name: "vm-2" });
  // The DEL of the earlier pod runs late, or again.
  await scene.del(DUAL, first);
  assertEquals(claimStatus(scene, "vm").ownerPod, { name: "vm-2" });
  assertEquals(scene.allocations(POOL)?.["1"], claimRecord(scene, "vm"));
  assert(scene.reservations().includes("10.0.0.1"));
});

/** A claim that cannot be used, and the answer. */
interface Bad {
  /** Prepares the cluster. */
  readonly prepare?: (scene: WhereaboutsScene) => void | Promise<void>;
  readonly ipam?: Record<string, string>;
  readonly call?: PodCall;
  readonly evidence?: Parameters<typeof withClaim>[2];
  readonly code: number;
  readonly text: RegExp;
  /** The reason in the claim's condition. */
  readonly reason?: string;
}

const STRANGER = { id: "c9", podref: "test/other", ifname: "net1" };

const BAD: Readonly<Record<string, Bad>> = {
  "the claim is missing": {
    code: 11,
    text: /IPAMClaim "vm" does not exist in namespace "test"/,
  },
  "the claim is in another namespace": {
    prepare: (scene) => void putIpamClaim(scene, "vm", { namespace: "else" }),
    code: 11,
    text: /IPAMClaim "vm" does not exist in namespace "test"/,
  },
  "the claim is being deleted": {
    prepare: (scene) =>
      void putIpamClaim(scene, "vm", {
        metadata: {
          deletionTimestamp: "2026-01-01T00:00:00Z",
          finalizers: ["kubevirt.io/persistent-ipam"],
        },
      }),
    code: 11,
    text: /IPAMClaim "vm" is being deleted/,
  },
  "the claim is of another network": {
    prepare: (scene) => void putIpamClaim(scene, "vm", { network: "blue" }),
    code: 7,
    text: /IPAMClaim "vm" is for network "blue"/,
  },
  "the claim is of another interface": {
    prepare: (scene) => void putIpamClaim(scene, "vm", { interface: "net7" }),
    code: 7,
    text: /IPAMClaim "vm" is for interface "net7"/,
  },
  "the claim is of another StatefulSet": {
    prepare: (scene) =>
      void putIpamClaim(scene, "vm", {
        owner: setOf("db", "old"),
      }),
    evidence: { controller: setOf("db", "new") },
    code: 7,
    text: /belongs to StatefulSet "db", which does not control the pod/,
  },
  "the claim is of another virtual machine": {
    prepare: (scene) =>
      void putIpamClaim(scene, "vm", {
        owner: machineOf("a"),
      }),
    evidence: { controller: instanceOf("b") },
    code: 7,
    text: /belongs to VirtualMachine "a", which does not control the pod/,
  },
  "another pod uses the claim": {
    prepare: (scene): void => {
      putIpamClaim(scene, "vm", { ownerPod: "other" });
      putRunningPod(scene, "other");
    },
    code: 11,
    text: /IPAMClaim "vm" is in use by pod "other"/,
  },
  "a pod of the machine's next instance comes too early": {
    prepare: (scene): void => {
      putIpamClaim(scene, "vm", { ownerPod: "old" });
      putRunningPod(scene, "old", { controller: instanceOf("vm", "first") });
    },
    evidence: { controller: instanceOf("vm", "second") },
    code: 11,
    text: /IPAMClaim "vm" is in use by pod "old"/,
  },
  "two interfaces of a pod have one claim": {
    prepare: async (scene): Promise<void> => {
      putIpamClaim(scene, "vm");
      await scene.add(RANGE, withClaim("vm", { ifName: "net2" }));
    },
    code: 7,
    text: /has the addresses of interface "net2"/,
  },
  "the status has another's address": {
    prepare: (scene): void => {
      putIpamClaim(scene, "vm", { ips: ["10.0.0.9/24"] });
      scene.putPool(POOL, "10.0.0.0/24", { "9": STRANGER });
    },
    code: 11,
    text:
      /10\.0\.0\.9 is not free: IPPool "10\.0\.0\.0-24" has it for "test\/other"/,
    reason: "IPAddressConflict",
  },
  "the status has an address that another range reserves": {
    prepare: (scene): void => {
      putIpamClaim(scene, "vm", { ips: ["10.0.0.9/24"] });
      scene.putReservation("10.0.0.9", "test/other", "net1");
    },
    code: 11,
    text: /10\.0\.0\.9 is not free: another range has it/,
    reason: "IPAddressConflict",
  },
  "the status has an address that another range has reserved since": {
    prepare: async (scene): Promise<void> => {
      putIpamClaim(scene, "vm");
      await scene.add(RANGE, withClaim("vm"));
      scene.api.remove("overlappingrangeipreservations", POOLS, "10.0.0.1");
      scene.putReservation("10.0.0.1", "test/other", "net1");
    },
    code: 11,
    text: /10\.0\.0\.1 is not free: another range has it/,
    reason: "IPAddressConflict",
  },
  "the status has another address than the pool": {
    prepare: async (scene): Promise<void> => {
      putIpamClaim(scene, "vm");
      await scene.add(RANGE, withClaim("vm"));
      putIpamClaim(scene, "vm", { ips: ["10.0.0.9/24"] });
    },
    code: 11,
    text:
      /10\.0\.0\.9 is not free: IPPool "10\.0\.0\.0-24" has 10\.0\.0\.1 for it/,
    reason: "IPAddressConflict",
  },
  "the status has an address outside the ranges": {
    prepare: (scene) =>
      void putIpamClaim(scene, "vm", { ips: ["192.168.0.9/24"] }),
    code: 7,
    text: /192\.168\.0\.9 is in none of the ranges/,
  },
  "the status has an excluded address": {
    prepare: (scene) =>
      void putIpamClaim(scene, "vm", { ips: ["10.0.0.9/24"] }),
    ipam: { range_start: "10.0.0.100" },
    code: 7,
    text: /10\.0\.0\.9 is in none of the ranges/,
  },
  "the pod requests addresses too": {
    prepare: (scene) => void putIpamClaim(scene, "vm"),
    call: { args: "IP=10.0.0.7/24" },
    code: 7,
    text: /IPAMClaim "vm" cannot be used together with requested addresses/,
  },
  "the network has slices": {
    prepare: (scene) => void putIpamClaim(scene, "vm"),
    ipam: { node_slice_size: "/28" },
    code: 7,
    text: /IPAMClaim "vm" cannot be used with node_slice_size/,
  },
  "the CRD is missing": {
    prepare: ({ api }) => api.uninstall("ipamclaims"),
    code: 7,
    text: /the cluster has no IPAMClaims: their CRD is not installed/,
  },
  "the pool is full": {
    prepare: async (scene): Promise<void> => {
      for (const name of ["a", "b"]) {
        putIpamClaim(scene, name);
        await scene.add(
          { range: "10.0.0.0/30" },
          withClaim(name, { pod: name }),
        );
      }
      putIpamClaim(scene, "vm");
    },
    ipam: { range: "10.0.0.0/30" },
    code: 11,
    text:
      /Could not allocate IP in range.*2 of its addresses are kept for IPAMClaims/,
    reason: "SubnetExhausted",
  },
};

Deno.test("whereabouts: ADD with an unusable claim fails and allocates nothing", async (t) => {
  await eachRow(t, Object.entries(BAD), async ([, bad]) => {
    await using scene = await WhereaboutsScene.start();
    await bad.prepare?.(scene);
    const before = [
      scene.api.listNames("ippools").map((name) => scene.allocations(name)),
      scene.reservations(),
    ];
    const call = withClaim("vm", bad.call, bad.evidence);
    const ipam = { ...RANGE, ...bad.ipam };
    const { code, msg, details = "" } = await scene.failure(ipam, call);
    assertEquals(code, bad.code, msg);
    assertMatch(`${msg} ${details}`, bad.text);
    const after = [
      scene.api.listNames("ippools").map((name) => scene.allocations(name)),
      scene.reservations(),
    ];
    assertEquals(
      after.flat(2).filter(isFilled),
      before.flat(2).filter(isFilled),
    );
    const [condition] = claimStatus(scene, "vm")?.conditions?.slice(-1) ?? [];
    if (bad.reason !== undefined) {
      assertEquals([condition.status, condition.reason], ["False", bad.reason]);
    }
    // The runtime cleans up.
    await scene.del(ipam, call);
  });
});

function isFilled(value: unknown): boolean {
  return typeof value !== "object" || Object.keys(value ?? {}).length > 0;
}

Deno.test("whereabouts: ADD restores the lost pool record of a claim", async () => {
  await using scene = await WhereaboutsScene.start();
  putIpamClaim(scene, "vm", { ips: ["10.0.0.9/24"] });
  const call = withClaim("vm");
  // The answer is lost, too: the next request finds the record.
  scene.api.fault({
    method: "PATCH",
    path: /ippools/,
    drop: "after",
    times: 1,
  });
  assertEquals(await scene.add(RANGE, call), ["10.0.0.9/24"]);
  assertEquals(scene.allocations(POOL), { "9": claimRecord(scene, "vm") });
  assertEquals(scene.reservations(), ["10.0.0.9"]);
});

Deno.test("whereabouts: ADD adds the missing address family to a claim", async () => {
  await using scene = await WhereaboutsScene.start();
  putIpamClaim(scene, "vm");
  await scene.add(RANGE, { pod: "first" });
  await scene.add(RANGE, withClaim("vm", { pod: "a" }));
  const both = ["10.0.0.2/24", "fd00::1/64"];
  assertEquals(await scene.add(DUAL, withClaim("vm", { pod: "a" })), both);
  assertEquals(claimStatus(scene, "vm").ips, both);
});

Deno.test("whereabouts: a claim keeps its address when the ranges change", async () => {
  await using scene = await WhereaboutsScene.start();
  putIpamClaim(scene, "vm");
  const call = withClaim("vm");
  await scene.add(RANGE, call);
  await scene.del(RANGE, call);
  const moved = { range: "10.7.0.0/24" };
  const { exitCode, json, stderr } = await scene.call("ADD", moved, call);
  assertEquals(exitCode, 0);
  assertEquals(json.ips[0].address, "10.0.0.1/24");
  assertMatch(stderr, /is no longer in any range/);
  // In the range's network, but not handed out any more.
  const narrowed = { ...RANGE, range_start: "10.0.0.100" };
  assertEquals(await scene.add(narrowed, call), ["10.0.0.1/24"]);
});

/** Results for pods with an annotation that names a claim. */
type Attribution = "the claim" | "no claim" | "unclear";

Deno.test("whereabouts: ADD under upstream multus finds the claim in the pod's annotations", async (t) => {
  await using scene = await WhereaboutsScene.start();
  const conf = { allowPersistentIPs: true };
  const networks = (elements: readonly object[]): Record<string, string> => ({
    "k8s.v1.cni.cncf.io/networks": JSON.stringify(elements),
  });
  const reference = { "ipam-claim-reference": "vm" };
  const held = { name: "net", ...reference };
  const rows: Readonly<
    Record<
      string,
      [
        readonly object[],
        string,
        Attribution,
        { interface?: string; network?: string }?,
      ]
    >
  > = {
    "by interface": [
      [{ name: "a" }, { name: "b", interface: "pod37a8", ...reference }],
      "pod37a8",
      "the claim",
    ],
    "by network": [[{ name: "a" }, held], "net2", "the claim"],
    "by network, after default networks": [[held], "net3", "the claim"],
    "not before its place": [[{ name: "a" }, held], "net1", "no claim"],
    "not for the default network": [[held], "eth0", "no claim"],
    "not the place of one with an interface": [
      [{ ...held, interface: "x" }],
      "net1",
      "no claim",
    ],
    "none": [[{ name: "net" }], "net1", "no claim"],
    "none for the network": [
      [{ name: "a", ...reference }, { name: "net" }],
      "net2",
      "no claim",
    ],
    "two elements of the network": [
      [{ name: "net" }, held],
      "net2",
      "unclear",
    ],
    "two elements of the network, and a claim for the interface": [
      [{ name: "net" }, held],
      "net2",
      "the claim",
      { interface: "net2" },
    ],
    "two elements of the network, and a claim for the other interface": [
      [{ name: "net" }, held],
      "net2",
      "no claim",
      { interface: "net1" },
    ],
    "a definition of another name": [
      [{ name: "a", ...reference }],
      "net1",
      "the claim",
    ],
    "a claim for another network": [
      [{ name: "a", ...reference }],
      "net1",
      "no claim",
      { network: "a" },
    ],
  };
  await eachRow(
    t,
    Object.entries(rows),
    async ([name, [elements, ifName, attribution, ofClaim]]) => {
      const metadata = { uid: crypto.randomUUID() };
      putIpamClaim(scene, "vm", { metadata, ...ofClaim });
      const pod = name.replaceAll(/[ ,]+/g, "-");
      putRunningPod(scene, pod, { annotations: networks(elements) });
      scene.takeRequests();
      const call = { pod, ifName, conf };
      if (attribution === "unclear") {
        const { code, msg } = await scene.failure(RANGE, call);
        assertEquals(code, 7);
        assertMatch(msg, /IPAMClaim "vm" might belong.*set "interface"/);
      } else await scene.add(RANGE, call);
      const requests = scene.takeRequests();
      assertEquals(requests[0], `GET pods/${pod}`);
      const isRead = requests.includes("GET ipamclaims/vm");
      assertEquals(isRead, attribution !== "no claim" || ofClaim !== undefined);
      const isHeld = attribution === "the claim";
      assertEquals(claimStatus(scene, "vm") !== undefined, isHeld);
    },
  );
});

Deno.test("whereabouts: concurrent first ADDs of a claim return the same addresses", async () => {
  await using scene = await WhereaboutsScene.start();
  const machine = instanceOf("vm");
  for (let round = 0; round < 10; round++) {
    const name = `vm-${round}`;
    putIpamClaim(scene, name);
    const calls = Array.from({ length: 20 }, (_, index) => ({
      pod: `${name}-${index}`,
    }));
    for (const { pod } of calls) {
      putRunningPod(scene, pod, { controller: machine });
    }
    const found = new Set<string>();
    await eachAtOnce(calls, 20, async (call) => {
      const own = withClaim(name, call, { controller: machine });
      found.add((await scene.add(DUAL, own)).join());
    });
    assertEquals(found.size, 1, [...found].join(" "));
    assertEquals(claimStatus(scene, name).ips.join(), [...found][0]);
  }
  for (const pool of [POOL, "fd00---64"]) {
    assertEquals(Object.keys(scene.allocations(pool) ?? {}).length, 10);
  }
  assertEquals(scene.reservations().length, 20);
});

Deno.test("whereabouts: of two pods that request a claim at the same time, one gets it", async (t) => {
  // The claim as its last pod has left it.
  const rows: Readonly<Record<string, { ownerPod?: string }>> = {
    "after the DEL of the last pod": {},
    "the last pod has ended": { ownerPod: "ended" },
    "the last pod is gone": { ownerPod: "gone" },
  };
  await eachRow(t, Object.entries(rows), async ([, left]) => {
    await using scene = await WhereaboutsScene.start();
    const before = putIpamClaim(scene, "vm");
    const ips = await scene.add(RANGE, withClaim("vm", { pod: "ended" }));
    putIpamClaim(scene, "vm", { ips, ...left, metadata: before.metadata });
    putRunningPod(scene, "ended", { phase: "Succeeded" });
    for (const pod of ["a", "b"]) putRunningPod(scene, pod);
    let isFirst = true;
    interceptRequests(scene, async (send, { method, path }) => {
      // "b" does all of its ADD before the status of "a" is written.
      if (method === "PATCH" && path.endsWith("/status") && isFirst) {
        isFirst = false;
        assertEquals(
          await scene.add(RANGE, withClaim("vm", { pod: "b" })),
          ips,
        );
      }
      return await send();
    });
    const call = withClaim("vm", { pod: "a" });
    const { code, msg } = await scene.failure(RANGE, call);
    assertEquals(code, 11);
    assertMatch(msg, /IPAMClaim "vm" is in use by pod "b"/);
    // DEL after the failed ADD takes nothing from "b".
    await scene.del(RANGE, call);
    assertEquals(claimStatus(scene, "vm").ownerPod, { name: "b" });
    assertEquals(scene.allocations(POOL), { "1": claimRecord(scene, "vm") });
    assertEquals(scene.reservations(), ["10.0.0.1"]);
    await scene.del(RANGE, withClaim("vm", { pod: "b" }));
    assertEquals(await scene.add(RANGE, call), ips);
  });
});

Deno.test("whereabouts: concurrent first ADDs of many claims and pods get different addresses", async () => {
  await using scene = await WhereaboutsScene.start();
  const calls = Array.from({ length: 60 }, (_, index) => {
    const pod = `p${index}`;
    if (index % 2) return { pod };
    putIpamClaim(scene, pod);
    return withClaim(pod, { pod });
  });
  const found = new Set<string>();
  await eachAtOnce(calls, 60, async (call) => {
    found.add((await scene.add(RANGE, call)).join());
  });
  assertEquals(found.size, 60);
  assertEquals(Object.keys(scene.allocations(POOL) ?? {}).length, 60);
});

Deno.test("whereabouts: a claim's first ADD leaves one record although others write to the pool", async (t) => {
  const controller = instanceOf("vm");
  const rows: Readonly<Record<string, [PodCall, number]>> = {
    "a pod": [{ pod: "other" }, 1],
    "another claim": [withClaim("other", { pod: "other" }), 1],
    "another pod of the claim": [
      withClaim("vm", { pod: "vm-2" }, { controller }),
      // And for the record of the claim, and for what its status says by now.
      3,
    ],
  };
  await eachRow(t, Object.entries(rows), async ([, [other, reads]]) => {
    await using scene = await WhereaboutsScene.start();
    putIpamClaim(scene, "first");
    await scene.add(RANGE, withClaim("first", { pod: "first" }));
    // Their records have different counts: see recordCountKey().
    putIpamClaim(scene, "vm", { metadata: { uid: "1" } });
    putIpamClaim(scene, "other", { metadata: { uid: "3" } });
    for (const pod of ["vm-1", "vm-2"]) {
      putRunningPod(scene, pod, { controller });
    }
    const countOwn = (): number =>
      Object.values(scene.allocations(POOL) ?? {})
        .filter(({ id }) => id === claimRecord(scene, "vm").id).length;
    let count = 0, most = 0;
    interceptRequests(scene, async (send, { method = "GET", path }) => {
      const answer = await send();
      most = Math.max(most, countOwn());
      const isRead = method === "GET" && path.includes("/ippools/");
      // It takes an address that the claim would not take.
      if (isRead && ++count === 1) {
        await scene.add({ ...RANGE, range_start: "10.0.0.100" }, other);
        count = 1;
      }
      return answer;
    });
    const call = withClaim("vm", { pod: "vm-1" }, { controller });
    const ips = await scene.add(RANGE, call);
    assertEquals(ips, claimStatus(scene, "vm").ips);
    // It has never had two records, which a kill would both leave.
    assertEquals([count, most, countOwn()], [reads, 1, 1]);
  });
});

/** Runs `around` in the place of each request, which it sends. */
function interceptRequests(
  scene: WhereaboutsScene,
  around: <T>(
    send: () => Promise<T>,
    request: Parameters<KubeClient["request"]>[0],
  ) => Promise<T>,
): void {
  scene.useClients(async (options) => {
    const client = await openKubeClient(options);
    if (client === undefined) throw new Error("no client");
    return {
      listPages: client.listPages.bind(client),
      request: <T>(...args: Parameters<KubeClient["request"]>): Promise<T> =>
        around(() => client.request<T>(...args), args[0]),
      [Symbol.dispose]: () => client[Symbol.dispose](),
    };
  });
}

/** A process that dies at a request. */
class Killed extends Error {}

Deno.test("whereabouts: a claim keeps its addresses if ADD or DEL is killed at any request", async () => {
  await using scene = await WhereaboutsScene.start();
  await scene.add(DUAL, { pod: "first" });
  let deaths = 0, count = 0;
  const kinds = [false, true].flatMap((isAfter) =>
    [false, true].map((isLost) => ({ isAfter, isLost }))
  );
  for (const { isAfter, isLost } of kinds) {
    for (let at = 0, isDone = false; !isDone; at++) {
      const name = `vm-${isAfter}-${isLost}-${at}`;
      // Its records were lost.
      const offset = 100 + count++;
      const kept = [`10.0.0.${offset}/24`, `fd00::${offset}/64`];
      putIpamClaim(scene, name, isLost ? { ips: kept } : {});
      const killAt = (position: number): void => {
        let sent = 0;
        interceptRequests(scene, async (send) => {
          const isLast = sent++ >= position;
          if (isLast && !isAfter) throw new Killed("killed");
          const answer = await send();
          if (isLast) throw new Killed("killed");
          return answer;
        });
      };
      const call = withClaim(name, { pod: name });
      killAt(at);
      isDone = (await scene.call("ADD", DUAL, call)).exitCode === 0;
      if (!isDone) deaths++;
      killAt(Infinity);
      const ips = await scene.add(DUAL, call);
      assertEquals(claimStatus(scene, name).ips, ips);
      if (isLost) assertEquals(ips, kept);
      const reserved = ips.map((ip) =>
        ip.replace(/\/.*/, "").replaceAll(":", "-")
      );
      const known = scene.reservations();
      assertEquals(reserved.filter((one) => !known.includes(one)), []);
      killAt(0);
      await scene.call("DEL", DUAL, call);
      killAt(Infinity);
      await scene.del(DUAL, call);
      assertEquals(
        await scene.add(DUAL, withClaim(name, { pod: name, id: "next" })),
        ips,
      );
      for (const pool of [POOL, "fd00---64"]) {
        const own = Object.values(scene.allocations(pool) ?? {})
          .filter(({ id }) => id.startsWith(`ipamclaim/test/${name}/`));
        assertEquals(own.length, 1, `${name} ${pool}`);
      }
    }
  }
  assert(deaths >= 28, `${deaths} deaths`);
});

Deno.test("whereabouts DEL of a pod with a claim succeeds without the API server", async () => {
  await using scene = await WhereaboutsScene.start();
  putIpamClaim(scene, "vm");
  const call = withClaim("vm");
  await scene.add(RANGE, call);
  for (const fault of [{ status: 503 }, { delayMs: 60_000 }]) {
    await scene.add(RANGE, call);
    scene.api.fault(fault);
    const start = performance.now();
    await scene.del(RANGE, call);
    // Any other DEL waits for a minute.
    assert(performance.now() - start < 10_000);
    scene.api.clearFaults();
  }
  assertEquals(scene.allocations(POOL), { "1": claimRecord(scene, "vm") });
});

Deno.test("whereabouts: a late DEL of an old sandbox keeps the claim of the new one", async () => {
  await using scene = await WhereaboutsScene.start();
  const owner = setOf("db");
  putIpamClaim(scene, "db-0", { owner });
  const call = (id: string): PodCall =>
    withClaim("db-0", { pod: "db-0", id }, { controller: owner });
  const ips = await scene.add(RANGE, call("old"));
  assertEquals(await scene.add(RANGE, call("new")), ips);
  await scene.del(RANGE, call("old"));
  assertEquals(scene.allocations(POOL), { "1": claimRecord(scene, "db-0") });
  // The pod is still there.
  assertEquals(claimStatus(scene, "db-0").ownerPod, { name: "db-0" });
  await scene.del(RANGE, call("new"));
  assertEquals(claimStatus(scene, "db-0").ownerPod, undefined);
  assertEquals(await scene.add(RANGE, call("next")), ips);
});

Deno.test("whereabouts: a claim does not inherit from a deleted claim of the same name", async () => {
  await using scene = await WhereaboutsScene.start();
  // Enough addresses for the records of all pods: no record is released during the test.
  const range = { range: "10.0.0.0/20" };
  for (let round = 0; round < howOften(50); round++) {
    const uid = crypto.randomUUID();
    putIpamClaim(scene, "vm", { metadata: { uid } });
    const call = withClaim("vm", { pod: "vm", id: `c${round}` });
    const adding = scene.add(range, call);
    // The DEL of the pod before, with the claim before.
    const old = withClaim("vm", { pod: "vm", id: `c${round - 1}` });
    await Promise.all([adding, scene.del(range, old)]);
    const own = Object.values(scene.allocations("10.0.0.0-20") ?? {})
      .filter(({ id }) => id.endsWith(uid));
    assertEquals(own.length, 1);
    assertEquals(claimStatus(scene, "vm").ownerPod, { name: "vm" });
  }
});

Deno.test("whereabouts: the error for a refused request names the claim's resource", async () => {
  await using scene = await WhereaboutsScene.start();
  putIpamClaim(scene, "vm");
  scene.api.forbid("patch", "ipamclaims/status");
  const { code, msg } = await scene.failure(RANGE, withClaim("vm"));
  assertEquals(code, 7);
  assertMatch(msg, /cannot patch resource "ipamclaims\/status"/);
});

Deno.test("whereabouts: a virtual machine keeps its addresses over many migrations, some of which fail", async () => {
  await using scene = await WhereaboutsScene.start();
  const machines = Array.from(
    { length: MACHINES },
    (_, index) => `vm-${index}`,
  );
  let count = 0, changed = 0, loud = 0, failed = 0;
  const labelsOf = (
    machine: string,
    isTarget: boolean,
  ): Record<string, string> => ({
    [CREATED_BY]: instanceOf(machine).uid,
    ...isTarget && { [MIGRATION_JOB]: `job-${count}` },
  });
  /** Starts a pod; returns its call, its addresses, and whether it is quiet. */
  const start = async (machine: string, isTarget: boolean): Promise<
    { call: PodCall; ips: string; isQuiet: boolean }
  > => {
    const pod = `${machine}-${count++}`;
    const controller = instanceOf(machine);
    const labels = labelsOf(machine, isTarget);
    putRunningPod(scene, pod, { controller, labels });
    const call = withClaim(machine, { pod }, { controller, labels });
    const { exitCode, json, stdout } = await scene.call("ADD", DUAL, call);
    assertEquals(exitCode, 0, stdout);
    return {
      call,
      ips: json.ips.map(({ address }: { address: string }) => address).join(),
      isQuiet: json.ips.every((one: object) => "cni.dev/quiet" in one),
    };
  };
  const end = async (call: PodCall): Promise<void> => {
    // The object may go before the DEL, or after it.
    const isGone = Math.random() < 0.5;
    if (isGone) scene.api.removePod("test", call.pod ?? "");
    await scene.del(DUAL, call);
    if (!isGone) scene.api.removePod("test", call.pod ?? "");
  };
  const running = new Map<string, Awaited<ReturnType<typeof start>>>();
  await eachAtOnce(machines, 8, async (machine) => {
    putIpamClaim(scene, machine, { owner: machineOf(machine) });
    const first = await start(machine, false);
    assertEquals(first.isQuiet, false);
    running.set(machine, first);
  });
  const pools = JSON.stringify(
    [POOL, "fd00---64"].map((pool) => scene.allocations(pool)),
  );
  scene.api.clearRequests();
  await eachAtOnce(machines, 8, async (machine) => {
    for (let times = 0; times < MIGRATIONS; times++) {
      const source = running.get(machine);
      const target = await start(machine, true);
      if (source === undefined) throw new Error("it runs");
      if (target.ips !== source.ips) changed++;
      if (!target.isQuiet) loud++;
      const isFailure = Math.random() < 0.3;
      if (isFailure) failed++;
      else running.set(machine, target);
      await end(isFailure ? target.call : source.call);
    }
  });
  assertEquals([changed, loud], [0, 0]);
  assert(failed > 0);
  assertEquals(scene.api.requestsOf("PATCH", /ippools/), []);
  assertEquals(
    JSON.stringify([POOL, "fd00---64"].map((pool) => scene.allocations(pool))),
    pools,
  );
  // A machine that is restarted is alone.
  for (const machine of machines.slice(0, 3)) {
    const last = running.get(machine);
    if (last) await end(last.call);
    const next = await start(machine, false);
    assertEquals([next.ips, next.isQuiet], [last?.ips, false]);
  }
});
