/**
 * Shows machine code as it was written: each operation, where it lies, its bytes, and
 * the step that it belongs to.
 *
 * @module
 */

import type { Machine } from "../../mkdenort/elf.ts";
import type { Argument, Base, Processor } from "./processor.ts";
import { createProcessor } from "./processors.ts";
import { type Part, Writer } from "./writer.ts";

/** An operation as it was written. */
export interface Operation {
  readonly address: number;
  readonly bytes: Uint8Array;
  /** Its effect, with registers named by their content. */
  readonly text: string;
  readonly step: string;
}

/** A call of a processor's method. */
interface Written {
  readonly name: keyof Processor;
  readonly args: readonly unknown[];
  readonly part: Part;
  readonly begin: number;
  readonly end: number;
}

/** Writes code, and the texts behind it. */
export type Write = (
  w: Writer,
  code: ReturnType<typeof createProcessor>["code"],
) => void;

/**
 * Lists the operations of a piece of code, and then its texts.
 *
 * @param frame Where things are on the stack, by name; behind its `size` is what the kernel gave
 */
export function listOperations(
  machine: Machine,
  origin: number,
  write: Write,
  frame: Readonly<Record<string, number>>,
): Operation[] {
  const processor = createProcessor(machine, origin);
  const { code } = processor;
  const written: Written[] = [];
  const recorded = new Proxy(processor, {
    get(target, name: keyof Processor): unknown {
      const method: unknown = Reflect.get(target, name);
      if (typeof method !== "function") return method;
      return (...args: readonly unknown[]): void => {
        const begin = code.end;
        method.apply(target, args);
        written.push({ name, args, part: w.part, begin, end: code.end });
      };
    },
  });
  const w = new Writer(recorded);
  write(w, code);
  const bytes = code.assemble();
  const texts = new Map([...w.texts].map(([text, label]) => [label, text]));
  const codeEnd = written.at(-1)?.end ?? origin;
  return [
    ...written.map(({ name, args, part, begin, end }) => ({
      address: begin,
      bytes: bytes.subarray(begin - origin, end - origin),
      text: describe(name, args, { part, frame, texts }),
      step: part.name,
    })),
    {
      address: codeEnd,
      bytes: bytes.subarray(codeEnd - origin),
      text: "texts",
      step: "",
    },
  ];
}

/** The names. */
interface Names {
  readonly part: Part;
  readonly frame: Readonly<Record<string, number>>;
  /** Texts by label. */
  readonly texts: ReadonlyMap<string, string>;
}

/** Says what an operation does. */
function describe(
  name: keyof Processor,
  args: readonly unknown[],
  { part, frame, texts }: Names,
): string {
  const register = (one: unknown): string => {
    const held = Object.entries(part.holds).find(([at]) => at === one)?.[1];
    return held ?? String(one);
  };
  const value = (one: unknown): string =>
    typeof one === "number" ? `${one}` : register(one);
  const label = (one: unknown): string => {
    const text = texts.get(String(one));
    return text === undefined ? `<${one}>` : `"${shorten(text)}"`;
  };
  const place = (offset: number): string => {
    const { size = Infinity } = frame;
    if (offset >= size) return `stack+${offset - size}`;
    const [field, start] = Object.entries(frame)
      .filter(([, at]) => at <= offset)
      .reduce((last, one) => one[1] >= last[1] ? one : last, ["", 0]);
    return `frame.${field}${offset === start ? "" : `+${offset - start}`}`;
  };
  const memory = (base: unknown, offset: unknown): string =>
    (base as Base) === "frame"
      ? place(Number(offset))
      : `[${register(base)}${offset === 0 ? "" : ` + ${offset}`}]`;
  const argument = (one: unknown): string => {
    const given = one as Argument;
    if (typeof given !== "object") return value(given);
    return "frame" in given ? `&${place(given.frame)}` : label(given.label);
  };
  const [one, two, three, four] = args;
  switch (name) {
    case "label":
      return `${one}:`;
    case "enter":
      return `enter, ${one} bytes of stack`;
    case "leave":
      return `leave, go to ${label(three)}`;
    case "leaveTo":
      return `leave, go to ${register(three)}`;
    case "number":
    case "move":
      return `${register(one)} = ${value(two)}`;
    case "frameAddress":
      return `${register(one)} = &${place(Number(two))}`;
    case "labelAddress":
      return `${register(one)} = &${label(two)}`;
    case "load":
      return `${register(one)} = ${memory(two, three)}`;
    case "loadByte":
      return `${register(one)} = byte ${memory(two, 0)}`;
    case "store":
      return `${memory(two, three)} = ${register(one)}`;
    case "storeByte":
      return `byte ${memory(two, 0)} = ${register(one)}`;
    case "add":
    case "addNumber":
      return `${register(one)} += ${value(two)}`;
    case "subtract":
      return `${register(one)} -= ${value(two)}`;
    case "shiftLeft":
      return `${register(one)} <<= ${two}`;
    case "shiftRight":
      return `${register(one)} >>= ${two}`;
    case "and":
      return `${register(one)} &= ${register(two)}`;
    case "jump":
      return `go to ${label(one)}`;
    case "jumpIf":
      return `if ${register(one)} ${two} ${value(three)} go to ${label(four)}`;
    case "jumpIfNegative":
      return `if ${register(one)} < 0 go to ${label(two)}`;
    case "systemCall":
      return `result = ${one}(${args.slice(1).map(argument).join(", ")})`;
  }
}

function shorten(text: string): string {
  const escaped = JSON.stringify(text).slice(1, -1);
  return escaped.length > 40 ? `${escaped.slice(0, 39)}…` : escaped;
}

/** Bytes in a line. */
const LINE_BYTES = 8;

/** Formats operations: address, bytes, operation, step. */
export function formatListing(
  title: string,
  operations: readonly Operation[],
): string {
  const size = operations.reduce((sum, { bytes }) => sum + bytes.length, 0);
  const lines = operations.flatMap(({ address, bytes, text, step }) => {
    const parts = text === "texts" ? [] : split(bytes);
    const [first = "", ...rest] = parts;
    const cells = [formatAddress(address), first.padEnd(23), text.padEnd(56)];
    return [
      `${cells.join("  ")}  ${step}`.trimEnd(),
      ...rest.map((part, index) =>
        `${formatAddress(address + LINE_BYTES * (index + 1))}  ${part}`
      ),
    ];
  });
  return [`${title}: ${size} bytes`, ...lines, ""].join("\n");
}

function split(bytes: Uint8Array): string[] {
  const count = Math.ceil(bytes.length / LINE_BYTES);
  return Array.from({ length: count }, (_, index) => {
    const at = index * LINE_BYTES;
    return [...bytes.subarray(at, at + LINE_BYTES)]
      .map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
  });
}

function formatAddress(address: number): string {
  return address.toString(16).padStart(6, "0");
}
