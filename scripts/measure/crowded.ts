/**
 * Counts the system calls of a container's commands, and what they read, beside few
 * and many others: the tables of docs/performance.md.
 *
 *     deno task deno run -A scripts/measure/crowded.ts [--docs] WAY NETWORKS COUNT...
 *
 * As root, with the arguments of `tests/_harness/crowded_node.ts`. Other work on the
 * machine does not disturb counts. With `--docs`, the page's rows of these networks
 * are written.
 *
 * @module
 */

import { TestHosts } from "../../testing/test_hosts.ts";
import {
  listNetworks,
  listPossible,
} from "../../tests/_harness/crowded_node.ts";
import {
  type TracedCalls,
  traceProgram,
} from "../../tests/_harness/traced_calls.ts";
import { ROOT, runDeno } from "../project.ts";
import { formatRow, replaceRows } from "./counts_table.ts";

/** Numbers of others in the page's columns. */
const LEVELS: readonly number[] = [3, 250, 1000];

/** The page's tables by way: the comments before them, and their first heads. */
const TABLES: Readonly<Record<string, readonly [mark: string, title: string]>> =
  {
    daemon: ["counts in the daemon", "system calls, KB read"],
    process: ["counts without the daemon", "without the daemon"],
  };

/** Counts, and returns a row for each network. */
async function measure(
  way: string,
  pattern: string,
  counts: readonly number[],
): Promise<string[]> {
  using hosts = TestHosts.create();
  const parts = await traceProgram(hosts.host, hosts.directory, [
    "crowded_node.ts",
    ...[way, pattern],
    ...counts.map(String),
  ]);
  return listPossible(pattern).map((name) => {
    const costOf = (command: string, others: number): TracedCalls => {
      const part = parts.get(`${name}-${others}-${command}`);
      if (part !== undefined) return part;
      throw new Error(`There is no mark of ${name}, ${command}`);
    };
    return formatRow(name, costOf, counts, LEVELS);
  });
}

async function writeRows(way: string, rows: readonly string[]): Promise<void> {
  const path = `${ROOT}docs/performance.md`;
  const page = await Deno.readTextFile(path);
  const [mark = way, title = way] = TABLES[way] ?? [];
  const columns = { title, names: listNetworks(), levels: LEVELS };
  await Deno.writeTextFile(path, replaceRows(page, mark, rows, columns));
  await runDeno(["fmt", "--quiet", path]);
}

if (import.meta.main) {
  const isForDocs = Deno.args[0] === "--docs";
  const [way = "", pattern = "", ...counts] = Deno.args.slice(+isForDocs);
  const rows = await measure(way, pattern, counts.map(Number));
  for (const row of rows) console.log(row);
  if (isForDocs) await writeRows(way, rows);
}
