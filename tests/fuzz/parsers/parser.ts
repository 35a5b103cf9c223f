/**
 * What a parser of bytes or text from outside promises, and inputs that are
 * nearly right.
 *
 * @module
 */

import * as fc from "fast-check";
import type { Bytes } from "../../../net/bytes.ts";

/** A parser, with the inputs that it gets. */
export interface Parser<Input = unknown> {
  readonly name: string;
  readonly inputs: fc.Arbitrary<Input>;
  /** Parses an input; throws or returns what must not be. */
  readonly run: (input: Input) => void | Promise<void>;
}

/** A class of errors. */
// deno-lint-ignore no-explicit-any -- what a constructor takes does not matter
export type ErrorClass = abstract new (...args: any[]) => Error;

/** A parser, and the errors that its documentation names. */
export interface Promised<Input> {
  readonly name: string;
  /** Well-formed inputs. Others are made of them. */
  readonly samples: readonly Input[];
  readonly parse: (input: Input) => unknown;
  /** The errors it may throw; other errors are bugs. */
  readonly throws?: readonly ErrorClass[];
}

/** Texts of bugs, whatever the error's class. */
const BUGS =
  /Cannot read properties|is not a function|is not iterable|\[object /;

/** Longest message: an error that repeats a whole input floods the log. */
const LONGEST_MESSAGE = 20_000;

/** Runs a parser, and lets only the promised errors pass. */
async function attempt<Input>(
  { parse, throws = [] }: Promised<Input>,
  input: Input,
): Promise<void> {
  try {
    await parse(input);
  } catch (error) {
    const isPromised = throws.some((one) => error instanceof one);
    if (!isPromised || !(error instanceof Error)) throw error;
    if (BUGS.test(error.message)) throw error;
    if (error.message.length > LONGEST_MESSAGE) {
      throw new Error(`a message of ${error.message.length} characters`);
    }
  }
}

/** A change of a sample. */
interface Edit {
  /** Where, as a part of the length: 0 to 1. */
  readonly at: number;
  readonly kind: "replace" | "insert" | "remove" | "repeat";
  /** How much is removed or repeated. */
  readonly count: number;
  readonly value: number;
}

const edits: fc.Arbitrary<Edit[]> = fc.array(
  fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    kind: fc.constantFrom("replace", "insert", "remove", "repeat"),
    count: fc.integer({ min: 1, max: 16 }),
    value: fc.integer({ min: 0, max: 255 }),
  }),
  { maxLength: 6 },
);

/** Declares a parser of text. */
export function textParser(promised: Promised<string>): Parser<string> {
  const { name, samples } = promised;
  const inputs = fc.oneof(
    { arbitrary: changed(samples, editText), weight: 6 },
    { arbitrary: crossed(samples), weight: 1 },
    { arbitrary: fc.string({ unit: "binary", maxLength: 64 }), weight: 1 },
    { arbitrary: fc.json({ maxDepth: 4 }), weight: 1 },
  );
  return { name, inputs, run: (input) => attempt(promised, input) };
}

/** Declares a parser of bytes. */
export function bytesParser(promised: Promised<Bytes>): Parser<Bytes> {
  const { name, samples } = promised;
  const inputs: fc.Arbitrary<Bytes> = fc.oneof(
    { arbitrary: changed(samples, editBytes), weight: 6 },
    {
      arbitrary: fc.uint8Array({ maxLength: 128 }).map((bytes) =>
        new Uint8Array(bytes)
      ),
      weight: 2,
    },
  );
  return { name, inputs, run: (input) => attempt(promised, input) };
}

function changed<Input>(
  samples: readonly Input[],
  edit: (input: Input, edit: Edit) => Input,
): fc.Arbitrary<Input> {
  return fc.tuple(fc.constantFrom(...samples), edits)
    .map(([sample, changes]) => changes.reduce(edit, sample));
}

/** The beginning of one sample, and the end of another. */
function crossed(samples: readonly string[]): fc.Arbitrary<string> {
  const part = fc.double({ min: 0, max: 1, noNaN: true });
  const sample = fc.constantFrom(...samples);
  return fc.tuple(sample, sample, part, part).map(([one, other, a, b]) =>
    one.slice(0, a * one.length) + other.slice(b * other.length)
  );
}

/** Characters that mean something in one of the formats. */
const SPECIAL = "{}[]\":,=;/%\\\n\r\t \0-.0919xé\u{1f600}\ud800'#@";

function editText(text: string, { at, kind, count, value }: Edit): string {
  const start = Math.floor(at * text.length);
  const [head, tail] = [text.slice(0, start), text.slice(start)];
  const char = SPECIAL[value % SPECIAL.length] ?? "";
  switch (kind) {
    case "replace":
      return head + char + tail.slice(1);
    case "insert":
      return head + char.repeat(value > 250 ? 2000 : 1) + tail;
    case "remove":
      return head + tail.slice(count);
    case "repeat":
      return head + tail.slice(0, count) + tail;
  }
}

function editBytes(bytes: Bytes, { at, kind, count, value }: Edit): Bytes {
  const start = Math.floor(at * bytes.length);
  const [head, tail] = [[...bytes.subarray(0, start)], [
    ...bytes.subarray(start),
  ]];
  switch (kind) {
    case "replace":
      return Uint8Array.from([...head, value, ...tail.slice(1)]);
    case "insert":
      return Uint8Array.from([...head, value, ...tail]);
    case "remove":
      return Uint8Array.from([...head, ...tail.slice(count)]);
    case "repeat":
      return Uint8Array.from([...head, ...tail.slice(0, count), ...tail]);
  }
}
