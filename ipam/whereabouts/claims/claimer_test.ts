import { assertEquals } from "@std/assert";
import type { ObjectMeta } from "../../../kube/types.ts";
import { Cidr } from "../../../net/cidr.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import type { WhereaboutsApi } from "../api.ts";
import { CLAIM_STEPS } from "./steps.ts";
import { Claimer } from "./claimer.ts";
import type { PatchOperation } from "../../../kube/write.ts";
import { type Allocation, type IpPool, reservationName } from "../objects.ts";
import { resolveRange } from "../range.ts";
import { recordOf } from "./ipam_claim.ts";
import { claimOwner, podOwner } from "../record_owner.ts";

const RANGE = resolveRange(Cidr.parse("10.0.0.0/28"));
const OWNER = { id: "c1", podref: "ns/web", ifname: "net1" };
const EARLIER = { ...OWNER, id: "c0" };
const HELD = recordOf({ namespace: "ns", name: "vm", uid: "u" }, "net1");
const STRANGER = { id: "c9", podref: "ns/other", ifname: "net1" };

type Spec = { readonly podref: string; readonly ifname?: string };

/** The cluster, with other writers that act just before a request. */
class Cluster {
  readonly allocations: Record<string, Allocation> = {};
  readonly reservations = new Map<
    string,
    { uid: string; spec: Spec; metadata?: ObjectMeta }
  >();
  /** Events before the requests of a kind, in sequence. */
  readonly before: Record<string, (() => unknown)[]> = {};
  readonly #annotations: Record<string, string> = {};
  #uid = 0;
  #content = "";
  #generation = 0;

  /** Reserves an address. */
  reserve(ip: string, spec: Spec): void {
    const address = RANGE.cidr.network.add(BigInt(ip.split(".")[3] ?? ""));
    this.reservations.set(reservationName("", address), {
      uid: `u${++this.#uid}`,
      spec,
    });
  }

  /** The API; a writer that returns `null` makes it answer that there is nothing. */
  get api(): WhereaboutsApi {
    const answer = <T>(
      kind: string,
      give: () => T | undefined,
    ): Promise<T | undefined> =>
      Promise.resolve(
        this.before[kind]?.shift()?.() === null ? undefined : give(),
      );
    const reservation = (name: string): object | undefined => {
      const found = this.reservations.get(name);
      const { uid, spec, metadata } = found ?? {};
      return found && { metadata: { ...metadata, name, uid }, spec };
    };
    const api = {
      findPool: () => answer("findPool", () => this.#pool()),
      createPool: () => Promise.resolve(undefined),
      patchPool: (_: string, operations: readonly PatchOperation[]) =>
        answer("patchPool", () => this.#patch(operations)),
      findReservation: (name: string) =>
        answer("findReservation", () => reservation(name)),
      createReservation: (
        name: string,
        spec: Spec,
        metadata: ObjectMeta = {},
      ) =>
        answer("createReservation", () => {
          if (this.reservations.has(name)) return undefined;
          const uid = `u${++this.#uid}`;
          this.reservations.set(name, { uid, spec, metadata });
          return reservation(name);
        }),
      deleteReservation: (name: string) =>
        Promise.resolve(void this.reservations.delete(name)),
      async *listReservations(): AsyncGenerator<unknown, void> {},
    };
    return api as unknown as WhereaboutsApi;
  }

  #pool(): IpPool {
    const content = JSON.stringify(this.allocations);
    if (content !== this.#content) this.#generation++;
    this.#content = content;
    return {
      metadata: {
        name: "pool",
        annotations: { ...this.#annotations },
        generation: this.#generation,
      },
      spec: { range: String(RANGE.cidr), allocations: { ...this.allocations } },
    };
  }

  #patch(operations: readonly PatchOperation[]): ObjectMeta | undefined {
    this.#pool(); // Another writer may have changed it.
    const find = (path: string): [Record<string, unknown>, string] => [
      path.startsWith("/metadata/") ? this.#annotations : this.allocations,
      path.split("/").at(-1)?.replaceAll("~1", "/") ?? "",
    ];
    const isUnchanged = operations
      .filter(({ op }) => op === "test")
      .every(({ path, value }) => {
        const [all, key] = find(path);
        return JSON.stringify(all[key] ?? null) === JSON.stringify(value);
      });
    if (!isUnchanged) return undefined;
    for (const { op, path, value } of operations) {
      const [all, key] = find(path);
      if (op === "remove") delete all[key];
      else if (op !== "test") all[key] = value;
    }
    return this.#pool().metadata;
  }
}

interface Row {
  /** Prepares the cluster, and the other writers. */
  readonly prepare?: (cluster: Cluster) => void;
  readonly isOverlapping?: boolean;
  /** Last octet of the address that an IPAMClaim has; 0 for none yet. */
  readonly claimed?: number;
  /** Last octet of the address that a pod requests. */
  readonly requested?: number;
  /** Last octet of the address that an earlier sandbox keeps. */
  readonly left?: number;
  readonly steps: string;
  readonly address: string;
}

const TAKEN = "taking recorded";

const ROWS: Readonly<Record<string, Row>> = {
  "a free address": { steps: `${TAKEN} done`, address: "10.0.0.1" },
  "a free address that other ranges may contain": {
    isOverlapping: true,
    steps: `${TAKEN} reserving done`,
    address: "10.0.0.1",
  },
  "the address of an earlier sandbox": {
    prepare: ({ allocations }) => void (allocations[5] = EARLIER),
    steps: "adopting recorded done",
    address: "10.0.0.5",
  },
  "the earlier sandbox's DEL comes first": {
    prepare: ({ allocations, before }): void => {
      allocations[5] = EARLIER;
      before["patchPool"] = [() => delete allocations[5]];
    },
    steps: `adopting waiting reading ${TAKEN} done`,
    address: "10.0.0.1",
  },
  "another pod takes the address first": {
    prepare: ({ allocations, before }): void => {
      before["patchPool"] = [() => allocations[1] = STRANGER];
    },
    steps: `taking waiting reading ${TAKEN} done`,
    address: "10.0.0.2",
  },
  "another ADD of the interface comes first": {
    prepare: ({ allocations, before }): void => {
      before["patchPool"] = [() => allocations[7] = EARLIER];
    },
    steps: "taking yielding waiting reading adopting recorded done",
    address: "10.0.0.7",
  },
  "the pool is deleted at once": {
    prepare: ({ before }): void => {
      before["findPool"] = [() => null, () => null];
    },
    steps: `waiting reading ${TAKEN} done`,
    address: "10.0.0.1",
  },
  "an earlier sandbox's reservation": {
    isOverlapping: true,
    prepare: (cluster) => cluster.reserve("10.0.0.1", OWNER),
    steps: `${TAKEN} reserving replacing reserving done`,
    address: "10.0.0.1",
  },
  "the reservation of an adopted record": {
    isOverlapping: true,
    prepare: (cluster): void => {
      cluster.allocations[5] = EARLIER;
      cluster.reserve("10.0.0.5", OWNER);
    },
    steps: "adopting recorded reserving done",
    address: "10.0.0.5",
  },
  "another pod's reservation": {
    isOverlapping: true,
    prepare: (cluster) => cluster.reserve("10.0.0.1", STRANGER),
    steps: `${TAKEN} reserving leaving reading ${TAKEN} reserving done`,
    address: "10.0.0.2",
  },
  "another pod's reservation of a record that is there again": {
    isOverlapping: true,
    prepare: (cluster): void => {
      const { allocations, before } = cluster;
      allocations[1] = OWNER;
      cluster.reserve("10.0.0.1", STRANGER);
      // The first reading finds it, and so does the second.
      before["findPool"] = [() => 0, () => allocations[1] = OWNER];
    },
    steps: "adopting recorded reserving leaving reading " +
      "adopting recorded reserving leaving waiting reading " +
      `${TAKEN} reserving done`,
    address: "10.0.0.2",
  },
  "the first address of an IPAMClaim": {
    claimed: 0,
    isOverlapping: true,
    steps: `${TAKEN} reserving done`,
    address: "10.0.0.1",
  },
  "the address of an IPAMClaim": {
    claimed: 5,
    isOverlapping: true,
    prepare: ({ allocations }) => void (allocations[5] = HELD),
    steps: "adopting recorded reserving done",
    address: "10.0.0.5",
  },
  "the address of an IPAMClaim whose record was lost": {
    claimed: 5,
    isOverlapping: true,
    prepare: ({ before, allocations }): void => {
      before["patchPool"] = [(): null => {
        allocations[1] = STRANGER;
        return null;
      }];
    },
    steps: "restoring waiting reading restoring recorded reserving done",
    address: "10.0.0.5",
  },
  "a requested address that an earlier sandbox has": {
    requested: 5,
    left: 3,
    isOverlapping: true,
    prepare: (cluster): void => {
      cluster.allocations[3] = cluster.allocations[5] = EARLIER;
      cluster.reserve("10.0.0.5", OWNER);
    },
    steps: "adopting recorded reserving done",
    address: "10.0.0.5",
  },
  "a requested address, and an earlier sandbox has a different one": {
    requested: 5,
    left: 3,
    prepare: ({ allocations }) => void (allocations[3] = EARLIER),
    steps: "restoring recorded done",
    address: "10.0.0.5",
  },
  "a requested address, and the answer is lost": {
    requested: 5,
    isOverlapping: true,
    prepare: ({ before, allocations }): void => {
      before["patchPool"] = [(): null => {
        allocations[5] = OWNER;
        return null;
      }];
    },
    steps: "restoring waiting reading adopting recorded reserving done",
    address: "10.0.0.5",
  },
  "a reservation that is deleted meanwhile": {
    isOverlapping: true,
    prepare: ({ before }): void => {
      before["createReservation"] = [() => null];
    },
    steps: `${TAKEN} reserving pausing reserving done`,
    address: "10.0.0.1",
  },
};

/** Claims an address, and returns the steps. */
async function claim(
  { prepare, isOverlapping = false, claimed, requested }: Row,
): Promise<{ steps: string[]; address: string; cluster: Cluster }> {
  const cluster = new Cluster();
  prepare?.(cluster);
  const steps = ["reading"];
  const claimer = new Claimer({
    api: cluster.api,
    owner: claimed === undefined
      ? podOwner(OWNER)
      : claimOwner(HELD, "u", true),
    networkName: "",
    isOverlapping,
    signal: new AbortController().signal,
    log: console,
    random: () => 0,
    onStep: (_, to) => steps.push(to),
  });
  const octet = claimed || requested;
  const wanted = octet ? RANGE.cidr.network.add(BigInt(octet)) : undefined;
  const { ip } = await claimer.claim({ name: "pool", range: RANGE }, wanted);
  return { steps, address: ip.toString(), cluster };
}

Deno.test("Claimer takes each step of CLAIM_STEPS", async (t) => {
  await eachRow(t, Object.entries(ROWS), async ([, row]) => {
    const { steps, address, cluster } = await claim(row);
    assertEquals([steps.join(" "), address], [
      `reading ${row.steps}`,
      row.address,
    ]);
    const own = Object.entries(cluster.allocations)
      .filter(([, { podref }]) => podref !== STRANGER.podref);
    const record = row.claimed === undefined ? OWNER : HELD;
    assertEquals(Object.fromEntries(own), {
      ...row.left === undefined ? {} : { [row.left]: EARLIER },
      [address.split(".")[3] ?? ""]: record,
    });
    const reserved = [...cluster.reservations]
      .filter(([, { spec }]) => spec.podref !== STRANGER.podref);
    assertEquals(
      reserved.map(([name]) => name),
      row.isOverlapping ? [address] : [],
    );
  });
});

Deno.test("each row of CLAIM_STEPS has a test case", () => {
  const taken = new Set(
    Object.values(ROWS).flatMap(({ steps }) => {
      const path = ["reading", ...steps.split(" ")];
      return path.slice(1).map((to, index) => `${path[index]} ${to}`);
    }),
  );
  const told = Object.entries(CLAIM_STEPS)
    .flatMap(([from, next]) => Object.keys(next).map((to) => `${from} ${to}`));
  assertEquals([...taken].sort(), told.sort());
});
