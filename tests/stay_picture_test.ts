/** The picture of docs/persistent-addresses.md is what is drawn; `CNI_DRAW=1` writes it. */

import { assertEquals } from "@std/assert";
import { element, line, picture, textAt } from "../base/command_line/svg.ts";

/** Something that exists for a time, from 0 to 100. */
type Bar = readonly [from: number, to: number, text: string, kind: Kind];
type Kind = "pod" | "quiet" | "claim" | "gone";

/** What happens, and to whom. */
interface Scene {
  readonly title: string;
  readonly rows: readonly (readonly [name: string, ...bars: Bar[]])[];
  /** Moments, and what happens then. */
  readonly moments: readonly (readonly [at: number, text: string])[];
}

const CLAIM = "192.168.2.20";

const SCENES: readonly Scene[] = [
  {
    title: "A virtual machine is restarted",
    rows: [
      ["pod …-x1", [8, 38, CLAIM, "pod"]],
      ["pod …-y2", [56, 100, CLAIM, "pod"]],
      ["IPAMClaim, record", [8, 100, "stays", "claim"]],
    ],
    moments: [[8, "ADD"], [38, "DEL"], [56, "ADD"]],
  },
  {
    title: "It is migrated, the second time with success",
    rows: [
      ["node 1, pod …-x1", [2, 84, CLAIM, "pod"]],
      ["node 2, pod …-y2", [18, 38, "quiet", "quiet"]],
      [
        "node 2, pod …-z3",
        [56, 84, "quiet", "quiet"],
        [84, 100, CLAIM, "pod"],
      ],
      ["IPAMClaim, record", [2, 100, "unchanged", "claim"]],
    ],
    moments: [[18, "ADD"], [38, "failed"], [56, "ADD"], [84, "moved"]],
  },
  {
    title: "A StatefulSet's pod is restarted; later the set is deleted",
    rows: [
      ["pod db-0", [8, 30, CLAIM, "pod"], [42, 68, CLAIM, "pod"]],
      ["pod web", [30, 100, "another address", "gone"]],
      ["IPAMClaim db-0…", [8, 72, "stays", "claim"]],
      ["record", [8, 88, "until the next cluster-gc", "claim"]],
    ],
    moments: [[8, "ADD"], [42, "ADD"], [72, "deleted"], [88, "cluster-gc"]],
  },
  {
    title: "A node is lost: no DEL comes",
    rows: [
      ["node 1, pod db-0", [2, 34, CLAIM, "pod"], [34, 60, "cut off", "gone"]],
      ["node 2, pod db-0", [60, 100, CLAIM, "pod"]],
      ["IPAMClaim, record", [2, 100, "stays", "claim"]],
    ],
    moments: [[34, "lost"], [60, "deleted by force, ADD"]],
  },
];

const STYLE = `
  svg { color-scheme: light dark; }
  .page { fill: #ffffff; } text { fill: #1f2328; } .dim { fill: #57606a; }
  .title { font-weight: bold; }
  .pod { fill: #ddf4ff; stroke: #0969da; } .claim { fill: #dafbe1; stroke: #1a7f37; }
  .quiet { fill: #ffffff; stroke: #0969da; stroke-dasharray: 5 4; }
  .gone { fill: #f6f8fa; stroke: #8c959f; }
  .moment { stroke: #8c959f; stroke-dasharray: 2 4; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } text { fill: #e6edf3; } .dim { fill: #9198a1; }
    .pod { fill: #121d2f; stroke: #4493f8; } .claim { fill: #12261e; stroke: #3fb950; }
    .quiet { fill: #0d1117; stroke: #4493f8; } .gone { fill: #161b22; stroke: #6e7681; }
    .moment { stroke: #6e7681; }
  }
`;

const MARGIN = 16, NAMES = 160, TIME = 620, ROW = 26, BAR = 20, HEAD = 44;

/** Draws the scenes, one below the other. */
function drawStay(): string {
  const shapes: string[] = [];
  let top = MARGIN;
  const xOf = (at: number): number => MARGIN + NAMES + at * TIME / 100;
  for (const { title, rows, moments } of SCENES) {
    const bottom = top + HEAD + rows.length * ROW;
    shapes.push(textAt([MARGIN, top + 14], title, { class: "title" }));
    for (const [at, text] of moments) {
      const x = xOf(at);
      shapes.push(
        line([x, top + 38], [x, bottom], { class: "moment" }),
        textAt([x, top + 34], text, { class: "dim", "text-anchor": "middle" }),
      );
    }
    for (const [index, [name, ...bars]] of rows.entries()) {
      const y = top + HEAD + index * ROW;
      shapes.push(textAt([MARGIN, y + 14], name));
      for (const [from, to, text, kind] of bars) {
        const [x, width] = [xOf(from), xOf(to) - xOf(from)];
        shapes.push(
          element("rect", { x, y, width, height: BAR, rx: 4, class: kind }),
          textAt([x + width / 2, y + 14], text, { "text-anchor": "middle" }),
        );
      }
    }
    top = bottom + MARGIN;
  }
  const frame = {
    width: 2 * MARGIN + NAMES + TIME,
    height: top,
    title: "Who has an address that stays, over time",
    style: STYLE,
  };
  return picture(frame, shapes);
}

const PATH = new URL(
  "../docs/images/persistent-addresses.svg",
  import.meta.url,
);

Deno.test("docs: the picture of addresses that stay is up to date", () => {
  if (Deno.env.get("CNI_DRAW")) Deno.writeTextFileSync(PATH, drawStay());
  // The formatter breaks lines.
  const plain = (text: string): string => text.replace(/\s+/g, "");
  assertEquals(plain(Deno.readTextFileSync(PATH)), plain(drawStay()));
});
