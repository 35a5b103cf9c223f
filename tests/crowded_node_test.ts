/**
 * What the commands of a container cost beside others: in the node daemon as many
 * system calls, and as many bytes from the kernel and from files, however many others
 * there are.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
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
const FEW = 3, MANY = 43;
const COMMANDS = ["ADD", "CHECK", "DEL", "GC"] as const;

/** What may differ for other reasons: a number has one more digit, a socket is opened again. */
const SAME_CALLS = 8, SAME_BYTES = 400;

/** Lists the commands that cost more beside many others than beside few. */
async function findGrowth(): Promise<string[]> {
  using hosts = TestHosts.create();
  const parts = await traceProgram(hosts.host, hosts.directory, [
    "crowded_node.ts",
    "daemon",
    ...[FEW, MANY].map(String),
  ]);
  return listPossible().flatMap((list) =>
    COMMANDS.flatMap((command) => {
      const [few, many] = [FEW, MANY].map((others) =>
        parts.get(`${list}-${others}-${command}`)
      );
      if (few === undefined || many === undefined) {
        throw new Error(`There is no mark of ${list}, ${command}`);
      }
      const calls = many.count - few.count, bytes = many.bytes - few.bytes;
      return [
        ...calls > SAME_CALLS ? [`${list}: ${command} makes more calls`] : [],
        ...bytes > SAME_BYTES ? [`${list}: ${command} reads more`] : [],
      ];
    })
  );
}

/**
 * What grows all the same: GC compares the valid attachments with the kernel's list of
 * links, and iptables prints the chain in which all ports are.
 */
const GROWING: readonly string[] = [
  "ptp and masquerade (nftables): GC reads more",
  "ptp and masquerade (iptables): GC reads more",
  "bridge and MAC check: GC reads more",
  "ptp and firewall (nftables): GC reads more",
  "ptp and portmap (nftables): GC reads more",
  "ptp and portmap (iptables): ADD reads more",
  "ptp and portmap (iptables): CHECK reads more",
  "ptp and portmap (iptables): DEL reads more",
  "ptp and portmap (iptables): GC reads more",
  "ptp, tuning, bandwidth and sbr: GC reads more",
];

rootTest(
  `in the node daemon, a container costs the same beside ${MANY} others as beside ${FEW}`,
  needs,
  async () => assertEquals(await findGrowth(), GROWING),
);
