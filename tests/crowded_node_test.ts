/**
 * What the commands of a container cost beside others: in the node daemon as many
 * system calls, and as many bytes from the kernel and from files, however many others
 * there are.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../testing/capabilities.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { listPossible } from "./_harness/crowded_node.ts";
import { needsInetRules } from "./_harness/rules.ts";
import { traceProgram } from "./_harness/traced_calls.ts";

const needs = allOf(
  needsInetRules,
  ignoreUnless(hasCommand("strace"), "needs strace"),
  ignoreUnless(hasCommand("iptables"), "needs iptables"),
);

/** Numbers of others. Beside fewer, tables and directories come and go. */
const FEW = 3, HALF = 23, MANY = 43;
const COMMANDS = ["ADD", "CHECK", "DEL", "GC"] as const;

/**
 * What may differ for other reasons, once in each half: a number has one more digit, a
 * socket is opened again.
 */
const SAME_CALLS = 4, SAME_BYTES = 200;
/** How much more GC may read for the second half of the containers than for the first one. */
const SAME_HALF = 1.3;
/** How much more GC may read if a container has two links on the host instead of one. */
const TWO_LINKS = 2.5;
/** Most calls of GC of multus for each valid container: five for each of its two files. */
const CALLS_OF_TWO_FILES = 10.5;
/** What the engine may read of its own files, in bytes. */
const FILE_BYTES = 10_000;

/** What a command cost. */
interface Cost {
  readonly calls: number;
  /** Including what programs read that it ran. */
  readonly bytes: number;
  /** How often it has read a directory. */
  readonly listings: number;
}

/** Returns the cost of a command of a network beside a number of others. */
type CostOf = (network: string, others: number, command: string) => Cost;

/** Measures the networks whose names match a pattern, in a way of `crowded_node.ts`. */
async function measure(way: string, pattern = ""): Promise<CostOf> {
  using hosts = TestHosts.create();
  const parts = await traceProgram(hosts.host, hosts.directory, [
    "crowded_node.ts",
    ...[way, pattern],
    ...[FEW, HALF, MANY].map(String),
  ]);
  return (network, others, command) => {
    const part = parts.get(`${network}-${others}-${command}`);
    if (part === undefined) {
      throw new Error(`There is no mark of ${network}, ${command}`);
    }
    const { calls, count, bytes, programs, programBytes } = part;
    // How often a pipe is read depends on when its program writes.
    const reads = programs > 0 ? calls["read"] ?? 0 : 0;
    return {
      calls: count - reads,
      bytes: bytes + programBytes,
      listings: calls["getdents64"] ?? 0,
    };
  };
}

/**
 * Lists the commands that cost more the more others there are: an object of the cluster
 * that changed meanwhile costs something only once.
 */
function listGrowing(costOf: CostOf): string[] {
  return listPossible().flatMap((network) =>
    COMMANDS.flatMap((command) => {
      const costs = [FEW, HALF, MANY].map((others) =>
        costOf(network, others, command)
      );
      const grows = (part: "calls" | "bytes", same: number): boolean =>
        costs.every((cost, at) =>
          at === 0 || cost[part] - (costs[at - 1]?.[part] ?? 0) > same
        );
      return [
        ...grows("calls", SAME_CALLS)
          ? [`${network}: ${command} makes more calls`]
          : [],
        ...grows("bytes", SAME_BYTES)
          ? [`${network}: ${command} reads more`]
          : [],
      ];
    })
  );
}

/** Lists the networks in which GC of all reads more for each container if there are more. */
function listQuadratic(costOf: CostOf, pattern = ""): string[] {
  return listPossible(pattern).filter((network) => {
    const [few, half, many] = [FEW, HALF, MANY].map((others) =>
      costOf(network, others, "GC of all").bytes
    ) as [number, number, number];
    return many - half > SAME_HALF * (half - few) + FILE_BYTES;
  });
}

/**
 * What grows all the same: GC compares the valid attachments with the kernel's list of
 * links, iptables prints the chain in which all ports are, and a pool of whereabouts is
 * one object.
 */
const GROWING: readonly string[] = [
  "ptp and masquerade (nftables): GC reads more",
  "ptp in the subnet of an uplink: GC reads more",
  "ptp and masquerade (iptables): GC reads more",
  "bridge and MAC check: GC reads more",
  "ptp and firewall (nftables): GC reads more",
  "ptp and firewall (iptables): GC reads more",
  "ptp and portmap (nftables): GC reads more",
  "ptp and portmap (iptables): ADD reads more",
  "ptp and portmap (iptables): CHECK reads more",
  "ptp and portmap (iptables): DEL reads more",
  "ptp and portmap (iptables): GC reads more",
  "ptp, tuning, bandwidth and sbr: GC reads more",
  "whereabouts: ADD reads more",
  "whereabouts: CHECK reads more",
  "whereabouts: GC reads more",
  "multus: GC makes more calls",
  "multus: GC reads more",
  "multus (thick): GC makes more calls",
  "multus (thick): GC reads more",
];

rootTest(
  `in the node daemon, a container costs the same among ${MANY} others as among ${FEW}`,
  needs,
  async (t) => {
    const costOf = await measure("daemon");
    await t.step("among others", () => {
      assertEquals(listGrowing(costOf), GROWING);
    });
    await t.step("GC reads each link of the host once", () => {
      const growthOf = (network: string): number =>
        costOf(network, MANY, "GC").bytes - costOf(network, FEW, "GC").bytes;
      const one = growthOf("ptp in the subnet of an uplink");
      const two = growthOf("ptp, tuning, bandwidth and sbr");
      assert(two < TWO_LINKS * one, `${two} bytes instead of ${one}`);
    });
    await t.step("GC of multus reads each file of its cache once", () => {
      const [few, many] = [FEW, MANY].map((others) =>
        costOf("multus", others, "GC").calls
      ) as [number, number];
      const each = (many - few) / (MANY - FEW);
      assert(each <= CALLS_OF_TWO_FILES, `${each} calls for each container`);
    });
    await t.step("GC lists no directory for each container", () => {
      const listing = listPossible().filter((network) => {
        const [few, many] = [FEW, MANY].map((others) =>
          costOf(network, others, "GC of all").listings
        ) as [number, number];
        return many - few > 2 * SAME_CALLS;
      });
      assertEquals(listing, []);
    });
    await t.step("GC of a container", () => {
      assertEquals(listQuadratic(costOf), []);
    });
  },
);

rootTest(
  "in a process, GC of many containers reads the rules once",
  needs,
  async () => {
    const pattern = "bridge|masquerade";
    assertEquals(listQuadratic(await measure("process", pattern), pattern), []);
  },
);
