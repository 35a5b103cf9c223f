/** How many system calls the ADD and DEL of a pod take in a warm process. */

import { assert } from "@std/assert";
import { importFlags } from "../scripts/net.ts";
import { hasCommand, ignoreUnless, rootTest } from "../testing/capabilities.ts";
import { runIn } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";

const needsStrace = ignoreUnless(hasCommand("strace"), "needs strace");

/** Calls of V8 and Deno, which come and go. */
const OF_THE_ENGINE =
  /^(futex|mprotect|madvise|mmap|munmap|mremap|brk|sched_\w+|clock_\w+|get\w*id|epoll_\w+|eventfd2|rt_sig\w+|clone3?|socketpair|restart_syscall|prctl|write)$/;

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
    const trace = `${hosts.directory}/trace`;
    const rounds = 4;
    runIn(
      hosts.host,
      "strace",
      ...["-f", "-qq", "-o", trace, Deno.execPath(), "run", "-A"],
      ...await importFlags(),
      ...[new URL("_harness/warm_pod.ts", import.meta.url).pathname],
      String(rounds),
    );
    const counts = countCalls(await Deno.readTextFile(trace));
    for (const [command, most] of Object.entries(MOST)) {
      const calls = counts.get(`${command}-${rounds}`) ?? {};
      const sum = Object.values(calls).reduce((all, one) => all + one, 0);
      await t.step(`${command}: ${sum}, at most ${most}`, () => {
        assert(sum > 0, "the trace has none");
        assert(sum <= most, `${sum}: ${JSON.stringify(calls)}`);
      });
    }
  },
);

/** Counts the main thread's calls after each mark, by name. */
function countCalls(trace: string): Map<string, Record<string, number>> {
  const lines = trace.split("\n");
  const [main] = lines.find((line) => line.includes("/mark-"))?.split(" ") ??
    [];
  const counts = new Map<string, Record<string, number>>();
  let calls: Record<string, number> = {};
  for (const line of lines) {
    const [, thread, name = ""] = /^(\d+) +(\w+)\(/.exec(line) ?? [];
    if (thread !== main || OF_THE_ENGINE.test(name)) continue;
    const [, mark] = /"\/mark-([^"]+)"/.exec(line) ?? [];
    if (mark === undefined) calls[name] = (calls[name] ?? 0) + 1;
    else counts.set(mark, calls = {});
  }
  return counts;
}
