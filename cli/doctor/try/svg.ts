/**
 * Who reached whom as a picture: for each network the two containers, the node
 * and what is beyond it, with a line for each pair. It follows the viewer's
 * light or dark colours.
 *
 * @module
 */

import {
  CHARACTER_WIDTH,
  element,
  escapeXml,
  line,
  picture,
  textAt,
} from "../../svg.ts";
import { shorten } from "../../../base/command_line/table.ts";
import type { Party, Reach } from "./trial.ts";
import type { Trial } from "./trial.ts";

const WIDTH = 760, MARGIN = 16, LINE = 17, HEIGHT = 172;
/** Size of a party's box. */
export const BOX = { width: 128, height: 34 } as const;
/**
 * Where the boxes of a network are: containers, node, beyond. No line between two
 * of them is behind a third.
 */
export const PLACES: Readonly<
  Record<Party, readonly [x: number, y: number]>
> = {
  A: [110, 60],
  B: [110, 125],
  gateway: [330, 22],
  node: [330, 147],
  outside: [590, 60],
  name: [590, 125],
};
const NAMES: Readonly<Record<Party, string>> = {
  A: "A",
  B: "B",
  gateway: "gateway",
  node: "node",
  outside: "outside",
  name: "name server",
};
const CHARACTERS = Math.floor((WIDTH - 4 * MARGIN) / CHARACTER_WIDTH);

const STYLE = `
  svg { color-scheme: light dark; }
  .page { fill: #ffffff; } .network { fill: #f6f8fa; stroke: #d0d7de; }
  .box { fill: #ffffff; stroke: #8c959f; }
  .ok { stroke: #1a7f37; stroke-width: 1.6; }
  .lost { stroke: #cf222e; stroke-width: 2; stroke-dasharray: 6 4; }
  text { fill: #1f2328; } .dim { fill: #57606a; } .name { font-weight: bold; }
  .bad-text { fill: #cf222e; } .ok-text { fill: #1a7f37; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } .network { fill: #161b22; stroke: #30363d; }
    .box { fill: #0d1117; stroke: #6e7681; }
    .ok { stroke: #3fb950; } .lost { stroke: #f85149; }
    text { fill: #e6edf3; } .dim { fill: #9198a1; }
    .bad-text { fill: #f85149; } .ok-text { fill: #3fb950; }
  }
`;

/** Draws the picture. */
export function drawTrials(trials: readonly Trial[]): string {
  const shapes: string[] = [];
  let y = MARGIN;
  for (const trial of trials) {
    const drawn = drawTrial(trial, y);
    shapes.push(...drawn.shapes);
    y += drawn.height + MARGIN;
  }
  return picture(
    { width: WIDTH, height: y, title: "Who reached whom", style: STYLE },
    shapes,
  );
}

/** Draws a network at a vertical position. */
function drawTrial(
  trial: Trial,
  top: number,
): { readonly shapes: readonly string[]; readonly height: number } {
  const { network, file, skipped, attempts, failures, stops, addresses } =
    trial;
  const lost = attempts.filter(({ reached }) => !reached);
  const texts = [
    ...skipped === null
      ? []
      : [{ text: `not tested: ${skipped}`, style: "dim" }],
    ...failures.map(({ command, message }) => ({
      text: command === "left" ? message : `${command} failed: ${message}`,
      style: "bad-text",
    })),
    ...stops.map(({ at, text }) => ({
      text: `stopped at ${at}: ${text}`,
      style: "bad-text",
    })),
    ...attempts.length > 0 && lost.length === 0 && failures.length === 0
      ? [{ text: "all reached; CHECK and DEL succeeded", style: "ok-text" }]
      : [],
  ];
  const inner = attempts.length === 0 ? 0 : HEIGHT;
  const height = 2 * MARGIN + LINE + inner + texts.length * LINE;
  const box = { x: MARGIN, y: top, width: WIDTH - 2 * MARGIN, height, rx: 8 };
  const under = top + MARGIN + LINE;
  const parties = (Object.keys(PLACES) as Party[]).filter((party) =>
    attempts.some(({ from, to }) => from === party || to === party)
  );
  return {
    shapes: [
      element("rect", { ...box, class: "network" }),
      textAt(
        [2 * MARGIN, top + MARGIN + 8],
        shorten(`${network} (${file})`, 60),
        {
          class: "name",
        },
      ),
      ...drawLines(attempts, under),
      ...parties.flatMap((party) =>
        drawBox(party, labelOf(party, attempts, addresses), under)
      ),
      ...texts.map(({ text, style }, at) =>
        textAt(
          [2 * MARGIN, under + inner + (at + 1) * LINE - 4],
          shorten(text, CHARACTERS),
          { class: style },
        )
      ),
    ],
    height,
  };
}

function labelOf(
  party: Party,
  attempts: readonly Reach[],
  addresses: Trial["addresses"],
): string {
  if (party === "A") return addresses[0]?.[0] ?? "";
  if (party === "B") return addresses[1]?.[0] ?? "";
  return attempts.find(({ to }) => to === party)?.address ?? "";
}

function drawBox(party: Party, label: string, top: number): string[] {
  const [x, y] = PLACES[party];
  const { width, height } = BOX;
  const place = { x: x - width / 2, y: top + y - height / 2, width, height };
  const middle = { "text-anchor": "middle" };
  return [
    element("rect", { ...place, rx: 6, class: "box" }),
    textAt([x, top + y - 3], NAMES[party], { ...middle, class: "name" }),
    textAt([x, top + y + 12], shorten(label, 17), { ...middle, class: "dim" }),
  ];
}

/** Draws a line for each pair: lost if either direction or any family is lost. */
function drawLines(attempts: readonly Reach[], top: number): string[] {
  const byPair = Map.groupBy(
    attempts,
    ({ from, to }) => [from, to].sort().join(" "),
  );
  return [...byPair.values()].flatMap((some) => {
    const [first] = some;
    if (first === undefined) return [];
    const [[x1, y1], [x2, y2]] = [PLACES[first.from], PLACES[first.to]];
    const isLost = some.some(({ reached }) => !reached);
    const about = some.map(({ from, to, address, reached, error }) =>
      `${NAMES[from]} to ${NAMES[to]} ${address}: ` +
      (reached ? "ok" : error ?? "no answer")
    ).join("; ");
    const shape = line([x1, top + y1], [x2, top + y2], {
      class: isLost ? "lost" : "ok",
    });
    return [element("g", {}, element("title", {}, escapeXml(about)) + shape)];
  });
}
