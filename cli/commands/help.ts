/**
 * `cni help` and `cni version`.
 *
 * @module
 */

import type { CommandCall, Output } from "../command.ts";
import { formatCommandHelp, formatProgramHelp } from "../help.ts";
import { parseCommandLine } from "../parse.ts";
import { describeVersion } from "../run.ts";
import { chooseStyle, type Style } from "../style.ts";

/** Prints help on a command, a group of commands, or the tool. */
export function help({ program, args }: CommandCall): Output {
  const { row, words } = parseCommandLine(program, [...args, "--help"]);
  const text = (style: Style): string =>
    row === undefined
      ? formatProgramHelp(program, style, words[0])
      : formatCommandHelp(program.name, row, style);
  return { json: { help: text(chooseStyle(false)) }, text };
}

/** Prints the version. */
export function version({ program }: CommandCall): Output {
  return describeVersion(program);
}
