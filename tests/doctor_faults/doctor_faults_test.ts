/**
 * Faults that stop a packet or a call, and what `cni doctor` makes of each: one
 * node, on which one fault after another is seeded, shown to stop something, asked
 * about, ended by what the doctor says, and undone.
 *
 * golden/doctor/faults.txt says what came out, and `CNI_DOCTOR_FAULTS=write` writes
 * it again. `CNI_DOCTOR_FAULTS=show` prints all that was said.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { FaultNode, NEEDS } from "./fault_node.ts";
import { judge, type Verdict } from "./judge.ts";
import type { FaultRow } from "./row.ts";
import { CALLS } from "./rows/calls.ts";
import { EARLIER } from "./rows/earlier.ts";
import { LINKS } from "./rows/links.ts";
import { ROUTES } from "./rows/routes.ts";
import { RULES } from "./rows/rules.ts";

const TOPICS: Readonly<Record<string, readonly FaultRow[]>> = {
  "Rules": RULES,
  "Routes": ROUTES,
  "Links": LINKS,
  "Earlier": EARLIER,
  "Calls": CALLS,
};

const MODE = Deno.env.get("CNI_DOCTOR_FAULTS") ?? "";
/** Percentages of faults: causes that are named, fixes that work, and no word. */
const LEAST = { named: 92, works: 75, silent: 2 } as const;

const PAGE = new URL("../golden/doctor/faults.txt", import.meta.url);

const INTRO = `# What cni doctor says of faults

Each fault stops a packet or a call on a node of \`tests/doctor_faults\`, which shows
that first. **cause**: \`named\` if an error of \`cni doctor\`, or of \`--pod\` for the
packet that is lost, names it; \`half\` if it is only a warning, or something else is
named; else \`nothing\`. **fix**: whether the commands that are printed end it, run as
they are; \`advice\` if there is only a sentence. \`CNI_DOCTOR_FAULTS=write\` writes this
list.
`;

rootTest("cni doctor names what stops packets and calls", NEEDS, async (t) => {
  await using node = await FaultNode.create();
  const { scene } = node;
  assertEquals(await scene.find({ without: ["leftover"] }), []);
  let before = MODE === "" ? [] : node.stock();
  const verdicts = new Map<FaultRow, Verdict>();
  for (const [topic, rows] of Object.entries(TOPICS)) {
    for (const row of rows) {
      await t.step({
        name: `${topic}: ${row.name}${row.needs?.suffix ?? ""}`,
        ignore: row.needs?.ignore ?? false,
        fn: async () => {
          const verdict = await judge(node, row);
          verdicts.set(row, verdict);
          if (MODE === "show") show(row, verdict);
          if (MODE === "") return;
          const [was, is] = [before, node.stock()];
          before = is;
          assertEquals(is, was);
        },
      });
    }
  }
  if (MODE !== "") await Deno.writeTextFile(PAGE, formatPage(verdicts));
  await t.step("as many as promised are named, and ended", () => {
    const page = Deno.readTextFileSync(PAGE).split("\n");
    const all = [...verdicts];
    const missing = all.filter(([{ name }]) =>
      !page.some((line) => line.startsWith(`| ${name} |`))
    ).map(([{ name }]) => name);
    assertEquals(missing, [], "run this with CNI_DOCTOR_FAULTS=write");
    const percent = (is: (verdict: Verdict) => boolean): number =>
      100 * all.filter(([, verdict]) => is(verdict)).length / all.length;
    assert(percent(({ cause }) => cause === "named") >= LEAST.named);
    assert(percent(({ fix }) => fix === "works") >= LEAST.works);
    assert(percent(({ isSilent }) => isSilent) <= LEAST.silent);
  });
  assertEquals(await scene.find({ without: ["leftover"] }), []);
});

function formatPage(verdicts: ReadonlyMap<FaultRow, Verdict>): string {
  const count = (is: (verdict: Verdict) => boolean): number =>
    [...verdicts.values()].filter(is).length;
  const known = Deno.readTextFileSync(PAGE).split("\n");
  const sections = Object.entries(TOPICS).map(([topic, rows]) =>
    [
      `## ${topic}\n`,
      "| fault | what fails | cause | fix |",
      "| --- | --- | --- | --- |",
      ...rows.flatMap((row) => {
        const verdict = verdicts.get(row);
        if (verdict !== undefined) return [formatRow(row, verdict)];
        // It needs another kernel.
        return known.filter((line) => line.startsWith(`| ${row.name} |`));
      }),
    ].join("\n")
  );
  const totals = `Of ${verdicts.size} faults, the cause of ` +
    `${count(({ cause }) => cause === "named")} is named, and of ` +
    `${count(({ cause }) => cause === "half")} half; the fix of ` +
    `${count(({ fix }) => fix === "works")} works as it is printed; ` +
    `\`Nothing is wrong\` is said in ${count(({ isSilent }) => isSilent)}.`;
  return [INTRO, totals, "", sections.join("\n\n"), ""].join("\n");
}

function formatRow(
  { name, fails }: FaultRow,
  { cause, fix }: Verdict,
): string {
  return `| ${name} | ${fails.text} | ${cause} | ${fix} |`;
}

function show({ name, fails }: FaultRow, { cause, fix, said }: Verdict): void {
  console.log(`\n## ${name} (${fails.text}): ${cause}, fix ${fix}`);
  for (const { isError, message, command } of said) {
    console.log(`  ${isError ? "E" : "w"} ${message}\n      ${command ?? "-"}`);
  }
}
