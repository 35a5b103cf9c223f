/**
 * Runs deno with the flags that this machine needs, as in
 * `deno task deno test -A ../neighbors`: where jsr.io is out of reach, the
 * stand-ins for its packages. Imports nothing else, so that it starts without
 * them.
 *
 * @module
 */

import { foreignImportFlags, importFlags } from "./import_flags.ts";

/** Subcommands that resolve imports. */
const RESOLVING = [
  ...["run", "test", "check", "bench", "compile", "doc", "cache", "info"],
  ...["bundle", "serve", "eval"],
];

/** A path out of the project: deno.lock has not what is imported there. */
const OUTSIDE = /^(?:\.\.)?\//;

/** Returns the flags, and prints a line if they are a surprise. */
async function announceImportFlags(args: readonly string[]): Promise<string[]> {
  const isDecided = Boolean(Deno.env.get("OFFLINE"));
  const isForeign = args.some((arg) => OUTSIDE.test(arg));
  const flags = await (isForeign ? foreignImportFlags() : importFlags());
  if (!isDecided && Deno.env.get("OFFLINE") === "1") {
    console.error(
      "jsr.io is out of reach: using scripts/offline/import_map.json",
    );
  }
  return flags;
}

/** Replaces this process by deno, so that deno's exit code and signals pass through. */
function exec(args: readonly string[]): never {
  const { symbols } = Deno.dlopen("libc.so.6", {
    execv: { parameters: ["buffer", "buffer"], result: "i32" },
  });
  const argv = [Deno.execPath(), ...args].map(encode);
  const pointers = argv.map((text) =>
    Deno.UnsafePointer.value(Deno.UnsafePointer.of(text))
  );
  symbols.execv(encode(Deno.execPath()), BigUint64Array.of(...pointers, 0n));
  // Using `argv` here keeps it alive while C reads it.
  throw new Error(`Cannot execute deno with ${argv.length - 1} arguments`);
}

function encode(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${text}\0`);
}

if (import.meta.main) {
  const [subcommand = "", ...args] = Deno.args;
  const flags = RESOLVING.includes(subcommand)
    ? await announceImportFlags(args)
    : [];
  exec([...Deno.args.slice(0, 1), ...flags, ...args]);
}
