/**
 * Flags as a command's table declares them.
 *
 * @module
 */

import type { FlagTable, FlagValues } from "../../tool/command.ts";
import { parseCommandLine } from "../../tool/parse.ts";

/**
 * Parses flags of a command.
 *
 * @param command The program and the command, such as `multus install`
 */
export function parseFlags<const T extends FlagTable>(
  command: string,
  flags: T,
  argv: readonly string[],
): FlagValues<T> {
  const [name = "", word = ""] = command.split(" ");
  const load = (): Promise<never> => Promise.reject(new Error(command));
  const rows = [{ name: word, summary: "", flags, load }];
  const line = parseCommandLine({ name, about: "", rows }, [word, ...argv]);
  // The parser has filled in the flags of the table.
  return line.flags as FlagValues<T>;
}
