/**
 * Counts the system calls of a container's commands, and what they read, beside few
 * and many others: the table of docs/performance.md.
 *
 * `deno task deno run -A scripts/measure/crowded.ts NETWORKS COUNT...`, as root: see
 * `tests/_harness/crowded_node.ts`.
 *
 * @module
 */

import { TestHosts } from "../../testing/test_hosts.ts";
import { listPossible } from "../../tests/_harness/crowded_node.ts";
import {
  type TracedCalls,
  traceProgram,
} from "../../tests/_harness/traced_calls.ts";

const COMMANDS = ["ADD", "CHECK", "DEL", "GC", "GC of all"];

/** Formats `95, 5.6`: system calls, and KB that they read; and those of programs. */
function formatPart(part: TracedCalls | undefined): string {
  if (part === undefined) return "";
  const { count, bytes, programs, programBytes } = part;
  const kb = (bytes: number): string => (bytes / 1000).toFixed(1);
  const own = `${count}, ${kb(bytes)}`;
  return programs === 0 ? own : `${own} + ${programs}, ${kb(programBytes)}`;
}

/** Prints the table. */
async function measure(
  pattern: string,
  counts: readonly string[],
): Promise<void> {
  using hosts = TestHosts.create();
  const parts = await traceProgram(hosts.host, hosts.directory, [
    "crowded_node.ts",
    ...["daemon", pattern],
    ...counts,
  ]);
  const head = [
    "",
    ...COMMANDS.flatMap((command) =>
      counts.map((count) => `${command}, ${count}`)
    ),
  ];
  const rows = listPossible(pattern).map((name) => [
    name,
    ...COMMANDS.flatMap((command) =>
      counts.map((count) =>
        formatPart(parts.get(`${name}-${count}-${command}`))
      )
    ),
  ]);
  for (const row of [head, ...rows]) console.log(row.join("\t"));
}

if (import.meta.main) {
  const [pattern = "", ...counts] = Deno.args;
  await measure(pattern, counts);
}
