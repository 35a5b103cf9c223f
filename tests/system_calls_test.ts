/** How many system calls the ADD and DEL of a pod take in a warm process. */

import { assert } from "@std/assert";
import { hasCommand, ignoreUnless, rootTest } from "../testing/capabilities.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { traceProgram } from "./_harness/traced_calls.ts";

const needsStrace = ignoreUnless(hasCommand("strace"), "needs strace");

/**
 * The most that the commands may take; raise them only for a reason. ADD has two for
 * ptp's question whether the host reaches the address elsewhere, five for sbr's
 * lock, which is a file of root, and four for chain's record, which is there before
 * a plugin begins.
 */
const MOST: Readonly<Record<string, number>> = { ADD: 142, DEL: 120 };

rootTest(
  "a warm ADD and DEL of a pod make few system calls",
  needsStrace,
  async (t) => {
    using hosts = TestHosts.create();
    const rounds = 4;
    const parts = await traceProgram(hosts.host, hosts.directory, [
      "warm_pod.ts",
      String(rounds),
    ]);
    for (const [command, most] of Object.entries(MOST)) {
      const { count = 0, calls } = parts.get(`${command}-${rounds}`) ?? {};
      await t.step(`${command}: ${count}, at most ${most}`, () => {
        assert(count > 0, "the trace has none");
        assert(count <= most, `${count}: ${JSON.stringify(calls)}`);
      });
    }
  },
);
