/**
 * The commands about a program itself.
 *
 * @module
 */

import type { CommandCall, CommandRow, Output } from "./command.ts";
import { formatCommandHelp, formatProgramHelp, withTexts } from "./help.ts";
import { parseCommandLine } from "./parse.ts";
import { describeVersion } from "./run.ts";
import { chooseStyle, type Style } from "./style.ts";
import { UsageError } from "./usage_error.ts";

/** The commands about a program itself. */
export const BUILT_IN_COMMANDS: readonly CommandRow[] = [
  {
    name: "help",
    summary: "Show help for a command",
    args: [{
      name: "COMMAND",
      summary: "a command (default all)",
      completes: "help",
      isOptional: true,
      isRepeated: true,
    }],
    load: () => Promise.resolve(help),
  },
  {
    name: "version",
    summary: "Print the version",
    load: () => Promise.resolve(({ program }) => describeVersion(program)),
  },
];

/** Prints help on a command, a group of commands, or the program. */
async function help({ program, args }: CommandCall): Promise<Output> {
  const { row, words, args: [stray] } = parseCommandLine(program, [
    ...args,
    "--help",
  ]);
  if (stray !== undefined) {
    throw new UsageError(
      `Cannot run "${program.name} help": unexpected argument "${stray}"; ` +
        `usage: ${program.name} help [COMMAND...]`,
    );
  }
  const whole = row && await withTexts(program, row);
  const text = (style: Style): string =>
    whole === undefined
      ? formatProgramHelp(program, style, words[0])
      : formatCommandHelp(program.name, whole, style);
  return { json: { help: text(chooseStyle(false)) }, text };
}
