/**
 * The table of commands as words for completion scripts.
 *
 * @module
 */

import {
  type CommandRow,
  type Completes,
  type Flag,
  flagsOf,
  type Program,
} from "../../tool/command.ts";

/** A flag for completion scripts. */
export interface FlagWords {
  /** With its dashes. */
  readonly long: string;
  /** With its dash; "" if it has no short form. */
  readonly short: string;
  readonly summary: string;
  /** Whether a value follows. */
  readonly hasValue: boolean;
  /** The words to offer for the value. */
  readonly completes: Completes | undefined;
}

/** A command for completion scripts. */
export interface CommandWords {
  readonly name: string;
  readonly summary: string;
  readonly flags: readonly FlagWords[];
  /** The words to offer for each argument; the last entry also applies to repetitions. */
  readonly args: readonly (Completes | undefined)[];
  /** Whether the last argument repeats. */
  readonly repeats: boolean;
}

/** Lists the commands that are to be completed. */
export function listCommandWords({ rows }: Program): CommandWords[] {
  return rows.filter(({ isHidden }) => isHidden !== true).map(toWords);
}

function toWords(row: CommandRow): CommandWords {
  const { name, summary, args = [] } = row;
  return {
    name,
    summary,
    flags: Object.entries(flagsOf(row)).map(toFlagWords),
    args: args.map(({ completes }) => completes),
    repeats: args.at(-1)?.isRepeated ?? false,
  };
}

function toFlagWords(
  [name, { short, value, summary, completes }]: [string, Flag],
): FlagWords {
  return {
    long: `--${name}`,
    short: short === undefined ? "" : `-${short[0]}`,
    summary,
    hasValue: value !== undefined,
    completes,
  };
}

/** Lists the first words of commands, each once, with what to say of it. */
export function listFirstWords(
  commands: readonly CommandWords[],
): { readonly word: string; readonly summary: string }[] {
  const words = new Map<string, string>();
  for (const { name, summary } of commands) {
    const [word = "", second] = name.split(" ");
    const known = words.get(word);
    const more = second === undefined ? summary : `${second}`;
    words.set(word, known === undefined ? more : `${known}, ${more}`);
  }
  return [...words].map(([word, summary]) => ({ word, summary }));
}

/** Lists the second words of the commands that begin with a word. */
export function listSecondWords(
  commands: readonly CommandWords[],
  first: string,
): { readonly word: string; readonly summary: string }[] {
  return commands.flatMap(({ name, summary }) => {
    const [begin, word] = name.split(" ");
    return begin === first && word !== undefined ? [{ word, summary }] : [];
  });
}
