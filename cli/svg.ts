/**
 * The shapes that pictures are drawn of.
 *
 * @module
 */

/** Values of attributes by name. */
export type Attributes = Readonly<Record<string, string | number>>;

/** Escapes a text for XML, in quotes or not. */
export function escapeXml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

/** A picture without its shapes. */
export interface Frame {
  readonly width: number;
  readonly height: number;
  readonly title: string;
  /** CSS; the class `page` is the background's. */
  readonly style: string;
}

/** Formats a whole picture. */
export function picture(
  { width, height, title, style }: Frame,
  shapes: readonly string[],
): string {
  const root = {
    xmlns: "http://www.w3.org/2000/svg",
    width,
    height,
    viewBox: `0 0 ${round(width)} ${round(height)}`,
    "font-family": "ui-monospace, 'DejaVu Sans Mono', monospace",
    "font-size": 12,
  };
  const parts = [
    element("title", {}, escapeXml(title)),
    element("style", {}, style),
    element("rect", { width, height, class: "page" }),
    ...shapes,
  ];
  return `${element("svg", root, `\n${parts.join("\n")}\n`)}\n`;
}

/** Formats an element; numbers to a tenth of a pixel. */
export function element(
  name: string,
  attributes: Attributes,
  content = "",
): string {
  const list = Object.entries(attributes).map(([key, value]) => {
    const text = typeof value === "number" ? round(value) : escapeXml(value);
    return ` ${key}="${text}"`;
  }).join("");
  return content === ""
    ? `<${name}${list}/>`
    : `<${name}${list}>${content}</${name}>`;
}

/** Rounds to a tenth of a pixel. */
function round(value: number): string {
  return String(Math.round(value * 10) / 10);
}

/** Formats a text that begins at a point, or ends or is centred there. */
export function textAt(
  [x, y]: readonly [x: number, y: number],
  text: string,
  attributes: Attributes = {},
): string {
  return element("text", { x, y, ...attributes }, escapeXml(text));
}

/** Formats a line between two points. */
export function line(
  [x1, y1]: readonly [x: number, y: number],
  [x2, y2]: readonly [x: number, y: number],
  attributes: Attributes,
): string {
  return element("line", { x1, y1, x2, y2, ...attributes });
}

/** The width of a character of a monospaced font of 12 pixels. */
export const CHARACTER_WIDTH = 7.3;

/** Chooses round numbers from 0 on that a scale up to `most` shows, 5 or so. */
export function chooseTicks(most: number): number[] {
  const rough = most / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power)
    .find((step) => step >= rough) ?? rough;
  const count = Math.ceil(most / step);
  return Array.from(
    { length: count + 1 },
    (_, at) => Number((at * step).toPrecision(6)),
  );
}
