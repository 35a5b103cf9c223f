/**
 * Faults that stop a packet or a call, and the report of `cni doctor` about each. On a
 * node, each fault of a topic is injected and shown to stop a packet or a call; then
 * `cni doctor` and the commands that it prints run, and the fault is undone. Each topic
 * has a file of tests, because the tests spend most of their time waiting.
 *
 * golden/doctor/faults.txt lists the outcomes, and `CNI_DOCTOR_FAULTS=write` writes it
 * again. `CNI_DOCTOR_FAULTS=show` prints the whole reports.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { evaluate, type Outcome } from "./evaluate.ts";
import { FaultNode, NEEDS } from "./fault_node.ts";
import type { FaultRow } from "./row.ts";

const MODE = Deno.env.get("CNI_DOCTOR_FAULTS") ?? "";

const PAGE = new URL("../golden/doctor/faults.txt", import.meta.url);

/** A row of the list. */
type Listed = Pick<Outcome, "cause" | "fix">;

const ROW =
  /^\| (.*) \| .* \| (named|half|nothing) \| (works|fails|advice|none) \|$/;

/** Reads the rows of a page or a section. */
function readRows(text: string): Map<string, Listed> {
  return new Map(
    text.split("\n").flatMap((line) => {
      const [, name = "", cause, fix] = ROW.exec(line) ?? [];
      return cause === undefined ? [] : [[name, { cause, fix } as Listed]];
    }),
  );
}

/**
 * Registers the test of a topic: an error names the cause of each fault, and its fix
 * works, or not, as in the list.
 */
export function testFaults(
  topic: string,
  rows: readonly FaultRow[],
): void {
  const name = `cni doctor names what stops packets and calls: ${topic}`;
  rootTest(name, NEEDS, async (t) => {
    await using node = await FaultNode.create();
    const { scene } = node;
    assertEquals(await scene.find({ without: ["leftover"] }), []);
    const listed = readRows(await Deno.readTextFile(PAGE));
    let before = MODE === "" ? [] : node.stock();
    const outcomes = new Map<FaultRow, Outcome>();
    for (const row of rows) {
      await t.step({
        name: `${row.name}${row.needs?.suffix ?? ""}`,
        ignore: row.needs?.ignore ?? false,
        fn: async () => {
          const outcome = await evaluate(node, row);
          outcomes.set(row, outcome);
          if (MODE === "show") show(row, outcome);
          if (row.isOfOthers) {
            const commands = outcome.said.filter(({ message, command }) =>
              command !== undefined && row.cause.test(message)
            );
            assertEquals(commands, []);
          }
          if (MODE === "") {
            const { cause, fix } = outcome;
            const said = JSON.stringify(outcome.said, null, 2);
            const want = { cause: "named", fix: listed.get(row.name)?.fix };
            assertEquals({ cause, fix }, want, said);
            return;
          }
          const [was, is] = [before, node.stock()];
          before = is;
          assertEquals(is, was);
        },
      });
    }
    if (MODE === "write") await writeSection(topic, rows, outcomes);
    assertEquals(await scene.find({ without: ["leftover"] }), []);
  });
}

/** Writes the section of a topic, and the totals of all. */
async function writeSection(
  topic: string,
  rows: readonly FaultRow[],
  outcomes: ReadonlyMap<FaultRow, Outcome>,
): Promise<void> {
  const page = await Deno.readTextFile(PAGE);
  const known = page.split("\n");
  const lines = rows.flatMap((row) => {
    const outcome = outcomes.get(row);
    // Without an outcome it needs another kernel.
    return outcome === undefined
      ? known.filter((line) => line.startsWith(`| ${row.name} |`))
      : [formatRow(row, outcome)];
  });
  const section = [
    `## ${topic}\n`,
    "| fault | what fails | cause | fix |",
    "| --- | --- | --- | --- |",
    ...lines,
  ].join("\n");
  const [head = "", ...sections] = page.split(/\n\n(?=## )/);
  const others = sections.map((text) =>
    text.startsWith(`## ${topic}\n`) ? section : text.trimEnd()
  );
  const all = [...readRows(others.join("\n")).values()];
  const count = (is: (row: Listed) => boolean): number => all.filter(is).length;
  const totals = `Of ${all.length} faults, the cause of ` +
    `${count(({ cause }) => cause === "named")} is named, and of ` +
    `${count(({ cause }) => cause === "half")} half; the fix of ` +
    `${count(({ fix }) => fix === "works")} works as it is printed; ` +
    `\`Nothing is wrong\` is said in ${count(({ fix }) => fix === "none")}.`;
  const intro = head.replace(/^Of \d+ faults.*$/m, totals);
  await Deno.writeTextFile(PAGE, `${[intro, ...others].join("\n\n")}\n`);
}

function formatRow({ name, fails }: FaultRow, { cause, fix }: Outcome): string {
  return `| ${name} | ${fails.text} | ${cause} | ${fix} |`;
}

function show({ name, fails }: FaultRow, { cause, fix, said }: Outcome): void {
  console.log(`\n## ${name} (${fails.text}): ${cause}, fix ${fix}`);
  for (const { isError, message, command } of said) {
    console.log(`  ${isError ? "E" : "w"} ${message}\n      ${command ?? "-"}`);
  }
}
