/**
 * How a good configuration becomes a bad one: in its structure, its text, or its
 * bytes.
 *
 * @module
 */

import type { Random } from "../_harness/repetition.ts";
import { TEXTS, VALUES } from "./values.ts";

/** Changes one thing somewhere in a value. */
export function mutate(value: unknown, random: Random): unknown {
  if (typeof value !== "object" || value === null || random.once(8)) {
    return random.once(12) ? nest(value, random) : random.pick(VALUES);
  }
  return Array.isArray(value)
    ? mutateList(value, random)
    : mutateObject(value, random);
}

/** Wraps a value in more levels than anybody needs. */
function nest(value: unknown, random: Random): unknown {
  let nested = value;
  for (let left = random.below(3000); left > 0; left--) {
    nested = random.once(2) ? [nested] : { a: nested };
  }
  return nested;
}

function mutateList(list: readonly unknown[], random: Random): unknown[] {
  const at = random.below(list.length + 1);
  const ways: [() => unknown[], ...(() => unknown[])[]] = [
    () => list.toSpliced(at, 1),
    () => list.toSpliced(at, 0, random.pick(VALUES)),
    () => [...list, ...list],
    () => list.with(at % list.length, mutate(list[at % list.length], random)),
    () => list.map((item) => mutate(item, random)),
  ];
  return list.length === 0 ? [random.pick(VALUES)] : random.pick(ways)();
}

function mutateObject(object: object, random: Random): object {
  const entries = Object.entries(object);
  const at = random.below(entries.length + 1);
  const [key, item] = entries[at] ?? [random.pick(TEXTS), null];
  const other: [string, unknown] = [key, mutate(item, random)];
  const ways: [() => [string, unknown][], ...(() => [string, unknown][])[]] = [
    () => entries.toSpliced(at, 1),
    () => entries.toSpliced(at, 1, [swapCase(key, random), item]),
    () => entries.toSpliced(at, 0, [swapCase(key, random), other[1]]),
    () => entries.toSpliced(at, 1, [random.pick(TEXTS), item]),
    // Most often the change is further down.
    () => entries.toSpliced(at, 1, other),
    () => entries.toSpliced(at, 1, other),
    () => entries.toSpliced(at, 1, other),
  ];
  return Object.fromEntries(random.pick(ways)());
}

function swapCase(text: string, random: Random): string {
  return random.once(2)
    ? text.toUpperCase()
    : text.slice(0, 1).toUpperCase() + text.slice(1).toLowerCase();
}

/** Changes a document's text, most often to one that is still JSON. */
export function rewrite(text: string, random: Random): string {
  const number = random.pick(["1e400", "-0", "1e-400", "9007199254740993"]);
  const value = JSON.stringify(random.pick(VALUES));
  const key = random.pick(["name", "cniVersion", "ipam", "prevResult", "mtu"]);
  return random.pick([
    // A key that comes twice.
    (): string => text.replace(/^\{/, () => `{"${key}":${value},`),
    (): string => text.replace(/\}$/, () => `,"${key}":${value}}`),
    (): string => text.replace(/\b\d+\b(?=[,}\]])/, () => number),
    (): string => text.replace(/[,:{]/g, (mark) => `\n\t ${mark} `),
    (): string => text.replaceAll("e", "\\u0065"),
    (): string => `${text}${text}`,
    (): string => JSON.stringify(text),
  ])();
}

const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];

/** Opens more lists than a document may have. */
const DEEP: readonly number[] = Array(20_000).fill(0x5b);

/** Damages bytes, as a disk or a pipe might. */
export function damage(bytes: Uint8Array, random: Random): Uint8Array {
  const cut = random.below(bytes.length + 1);
  const [head, tail] = [[...bytes.subarray(0, cut)], [...bytes.subarray(cut)]];
  const rest = tail.slice(1);
  const byte = random.below(256);
  const flipped = (tail[0] ?? 0) ^ (1 << random.below(8));
  return Uint8Array.from(
    random.pick([
      [head],
      [tail],
      [head, [byte], tail],
      [head, [byte], rest],
      [head, [flipped], rest],
      // Text that is not UTF-8: too long a form, a surrogate, a lone byte.
      [head, [0xc0, 0xaf], tail],
      [head, [0xed, 0xa0, 0x80], tail],
      [head, [0xff], tail],
      [head, tail, tail],
      [head, tail, [byte]],
      [BYTE_ORDER_MARK, head, tail],
      [head, DEEP, tail],
    ]).flat(),
  );
}
