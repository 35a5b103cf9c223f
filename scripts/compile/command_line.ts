/**
 * The command line of `deno task compile`.
 *
 * @module
 */

import { basename, dirname, extname, resolve } from "@std/path/posix";
import { readOptions } from "../command_line.ts";
import type { CompileOptions } from "./executables.ts";
import type { Program } from "./programs.ts";
import { STEP_NAMES } from "./steps.ts";
import { parseTarget } from "./target.ts";

/**
 * Reads the command line.
 *
 * @throws {Error} If there is something in it that we do not know
 */
export function parseCommandLine(args: readonly string[]): CompileOptions {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  const { target, out, plugin, name, ...flags } = readOptions({
    ...{ target: text, out: text, plugin: text, name: text },
    ...Object.fromEntries(STEP_NAMES.map((step) => [`no-${step}`, flag])),
  }, args);
  if (plugin === undefined && name !== undefined) {
    throw new Error("Cannot use --name without --plugin; see --help");
  }
  const without = STEP_NAMES.filter((step) =>
    Object.hasOwn(flags, `no-${step}`)
  );
  return {
    ...target === undefined ? {} : { target: parseTarget(target) },
    ...out === undefined ? {} : { out },
    ...without.length === 0 ? {} : { without },
    ...plugin === undefined ? {} : { program: describeForeign(plugin, name) },
  };
}

/**
 * Describes a program from outside of the project.
 *
 * @param name By default the name of the module, or of the directory of a `main.ts`
 * @throws {Error} If the name cannot be the type of a plugin
 */
function describeForeign(module: string, name?: string): Program {
  const entry = resolve(module);
  const stem = basename(entry, extname(entry));
  const own = stem === "main" ? basename(dirname(entry)) : stem;
  const program = { name: name ?? own, entry, links: [] };
  if (/^[\w][\w.-]*$/.test(program.name)) return program;
  throw new Error(
    `Cannot compile "${module}" as "${program.name}": --name must say a name of letters, digits, ".", "_" and "-"`,
  );
}
