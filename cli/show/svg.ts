/**
 * The node's networks as a picture: a box for each link of the node, with a
 * card for each namespace that is connected to it. It follows the viewer's
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
} from "../svg.ts";
import { shorten } from "../../base/command_line/table.ts";
import { shortenId } from "../node/target.ts";
import {
  describeInterface,
  type GroupView,
  type NodeView,
  type SandboxView,
  titleOf,
} from "./model.ts";
import { describeGroup } from "./tree.ts";

const MARGIN = 16, GAP = 14, LINE = 17, CARD = 400;
const SEPARATOR = " · ", WIDEST_FACTS = 820;
/** Room for the lines of veth pairs at the left of a group. */
const TRUNK = 26;
/** Characters in a line of a card. */
const CARD_CHARACTERS = Math.floor((CARD - 28) / CHARACTER_WIDTH);

const STYLE = `
  svg { color-scheme: light dark; }
  .page { fill: #ffffff; } .node { fill: #f6f8fa; stroke: #d0d7de; }
  .group { fill: #ffffff; stroke: #0969da; } .group.none { stroke: #8c959f; }
  .card { fill: #f6f8fa; stroke: #d0d7de; } .card.foreign { stroke: #9a6700; stroke-dasharray: 5 4; }
  .card.bad { stroke: #cf222e; stroke-width: 1.6; }
  .cable { stroke: #0969da; stroke-width: 2; fill: none; }
  text { fill: #1f2328; } .dim { fill: #57606a; } .name { font-weight: bold; }
  .face { fill: #0969da; font-weight: bold; } .bad-text { fill: #cf222e; }
  .foreign-text { fill: #9a6700; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } .node { fill: #161b22; stroke: #30363d; }
    .group { fill: #0d1117; stroke: #4493f8; } .group.none { stroke: #6e7681; }
    .card { fill: #161b22; stroke: #30363d; } .card.foreign { stroke: #d29922; }
    .card.bad { stroke: #f85149; }
    .cable { stroke: #4493f8; }
    text { fill: #e6edf3; } .dim { fill: #9198a1; }
    .face { fill: #4493f8; } .bad-text { fill: #f85149; }
    .foreign-text { fill: #d29922; }
  }
`;

/** Characters at the end of a long title that are shown. */
const END_CHARACTERS = 12;

/** A line of a card. */
interface CardLine {
  readonly text: string;
  readonly style: string;
  readonly indent?: number;
}

/** A card, measured. */
interface Card {
  readonly sandbox: SandboxView;
  readonly lines: readonly CardLine[];
  readonly height: number;
}

/** Shapes and their height. */
interface Drawn {
  readonly shapes: readonly string[];
  readonly height: number;
}

/** Draws the picture. */
export function drawNode(view: NodeView): string {
  const most = Math.max(1, ...view.groups.map((one) => one.sandboxes.length));
  const columns = most > 12 ? 4 : Math.min(3, most);
  const facts = view.groups.map((one) => describeGroup(one).join(SEPARATOR));
  const inner = Math.max(
    TRUNK + columns * (CARD + GAP) + MARGIN,
    Math.min(
      WIDEST_FACTS,
      2 * MARGIN + 8 +
        CHARACTER_WIDTH * Math.max(0, ...facts.map(({ length }) => length)),
    ),
  );
  const width = inner + 4 * MARGIN;
  const { node, uplinks, groups } = view;
  const shapes: string[] = [];
  let y = 2 * MARGIN + LINE;
  shapes.push(textAt([2 * MARGIN, y], fit(node, inner), { class: "name" }));
  for (const { name, addresses, gateways } of uplinks) {
    y += LINE;
    const words = [
      `${name} uplink`,
      ...addresses,
      ...gateways.map((gateway) => `default via ${gateway}`),
    ];
    shapes.push(
      textAt([2 * MARGIN, y], fit(words.join(" · "), inner), { class: "dim" }),
    );
  }
  y += MARGIN;
  for (const group of groups) {
    const drawn = drawGroup(group, { x: 2 * MARGIN, y, columns, width: inner });
    shapes.push(...drawn.shapes);
    y += drawn.height + GAP;
  }
  if (groups.length === 0) {
    y += LINE;
    shapes.push(textAt([2 * MARGIN, y], "No attachments", { class: "dim" }));
    y += MARGIN;
  }
  const height = y + 2 * MARGIN - GAP;
  const outer = {
    x: MARGIN,
    y: MARGIN,
    width: width - 2 * MARGIN,
    height: height - 2 * MARGIN,
    rx: 8,
    class: "node",
  };
  return picture(
    { width, height, title: `Networks of ${node}`, style: STYLE },
    [element("rect", outer), ...shapes],
  );
}

function fit(text: string, width: number): string {
  return shorten(text, Math.floor(width / CHARACTER_WIDTH));
}

/** Cuts the middle of a pod's name: its end distinguishes replicas. */
function fitTitle(text: string): string {
  if (text.length <= CARD_CHARACTERS) return text;
  const end = text.slice(-END_CHARACTERS);
  return shorten(text, CARD_CHARACTERS - END_CHARACTERS) + end;
}

function drawGroup(
  group: GroupView,
  { x, y, columns, width }: {
    readonly x: number;
    readonly y: number;
    readonly columns: number;
    readonly width: number;
  },
): Drawn {
  const isLinked = group.kind !== "none";
  const facts = describeGroup(group).join(SEPARATOR);
  const shapes = [
    drawText([x + MARGIN, y + 24], group.name, { class: "name" }, width - 32),
    drawText([x + MARGIN, y + 24 + LINE], facts, { class: "dim" }, width - 32),
  ];
  const head = 24 + (facts === "" ? 0 : LINE) + 8;
  const left = x + TRUNK + MARGIN / 2;
  const cards = group.sandboxes.map(measureCard);
  let top = y + head;
  let lastRail = top;
  for (let at = 0; at < cards.length; at += columns) {
    const row = cards.slice(at, at + columns);
    const height = Math.max(...row.map((card) => card.height));
    const rail = top + 8, cardTop = top + 20;
    for (const [column, card] of row.entries()) {
      const cardLeft = left + column * (CARD + GAP);
      const middle = cardLeft + CARD / 2;
      if (isLinked) {
        shapes.push(line([middle, rail], [middle, cardTop], CABLE));
      }
      shapes.push(...drawCard(card, [cardLeft, cardTop], height));
    }
    if (isLinked) {
      const end = left + (row.length - 1) * (CARD + GAP) + CARD / 2;
      shapes.push(line([x + MARGIN, rail], [end, rail], CABLE));
      lastRail = rail;
    }
    top = cardTop + height;
  }
  if (isLinked && cards.length > 0) {
    shapes.push(line([x + MARGIN, y + head], [x + MARGIN, lastRail], CABLE));
  }
  if (group.foreignPorts.length > 0) {
    top += LINE + 6;
    const text = `foreign ports: ${group.foreignPorts.join(", ")}`;
    const style = { class: "foreign-text" };
    shapes.push(drawText([x + MARGIN, top], text, style, width - 32));
  }
  const height = top - y + MARGIN;
  const box = { x, y, width, height, rx: 8 };
  const style = isLinked ? "group" : "group none";
  return {
    shapes: [element("rect", { ...box, class: style }), ...shapes],
    height,
  };
}

const CABLE = { class: "cable" } as const;

/** Draws a text, cut to a width; the whole text is its tooltip then. */
function drawText(
  [x, y]: readonly [x: number, y: number],
  text: string,
  attributes: Readonly<Record<string, string>>,
  width: number,
): string {
  const shown = fit(text, width);
  if (shown === text) return textAt([x, y], text, attributes);
  const title = element("title", {}, escapeXml(text));
  return element("text", { x, y, ...attributes }, title + escapeXml(shown));
}

function measureCard(sandbox: SandboxView): Card {
  const { containerIDs, isForeign, exists, interfaces, rules } = sandbox;
  const ids = containerIDs.map(shortenId).join(", ");
  const about = [
    ids,
    isForeign ? "foreign" : "",
    exists === null ? "cannot be read" : exists ? "" : "gone",
  ].filter((word) => word !== "").join(" · ");
  const lines: CardLine[] = [
    {
      text: fitTitle(titleOf(sandbox)),
      style: exists === false ? "bad-text" : "name",
    },
    ...about === "" ? [] : [{ text: about, style: "dim" }],
    ...interfaces.flatMap((view): CardLine[] => {
      const [first = "", ...facts] = describeInterface(view);
      return [
        { text: view.name, style: "face" },
        {
          text: first,
          style: view.network === null ? "foreign-text" : "dim",
          indent: 1,
        },
        ...facts.map((text) => ({ text, style: "", indent: 1 })),
        ...view.differences.map((text) => ({
          text: `✗ ${text}`,
          style: "bad-text",
          indent: 1,
        })),
      ];
    }),
    ...rules.map((text) => ({ text: `rule ${text}`, style: "dim" })),
  ];
  return { sandbox, lines, height: lines.length * LINE + 18 };
}

function drawCard(
  { sandbox, lines }: Card,
  [x, y]: readonly [x: number, y: number],
  height: number,
): string[] {
  const isBad = sandbox.exists === false ||
    sandbox.interfaces.some(({ differences }) => differences.length > 0);
  const style = isBad
    ? "card bad"
    : sandbox.isForeign
    ? "card foreign"
    : "card";
  const box = { x, y, width: CARD, height, rx: 6, class: style };
  return [
    element("rect", box),
    ...lines.map(({ text, style, indent = 0 }, at) =>
      drawText(
        [x + 12 + indent * 12, y + 20 + at * LINE],
        text,
        style === "" ? {} : { class: style },
        (CARD_CHARACTERS - indent) * CHARACTER_WIDTH + 1,
      )
    ),
  ];
}
