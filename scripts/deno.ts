/**
 * Runs deno with the flags that this machine needs, as in
 * `deno task deno test -A ../neighbors`: where jsr.io is out of reach, the
 * stand-ins for its packages. Imports nothing else, so that it starts without
 * them.
 *
 * @module
 */

import { announceImportFlags } from "./net.ts";

/** Subcommands that resolve imports. */
const RESOLVING = [
  ...["run", "test", "check", "bench", "compile", "doc", "cache", "info"],
  ...["bundle", "serve", "eval"],
];

/** Replaces this process by deno, so exit code and signals are those of deno. */
function exec(args: readonly string[]): void {
  const { symbols } = Deno.dlopen("libc.so.6", {
    execv: { parameters: ["buffer", "buffer"], result: "i32" },
  });
  const texts = [Deno.execPath(), ...args].map(encode);
  const argv = new BigUint64Array([
    ...texts.map((text) =>
      Deno.UnsafePointer.value(Deno.UnsafePointer.of(text))
    ),
    0n,
  ]);
  symbols.execv(encode(Deno.execPath()), argv);
  throw new Error(`Cannot execute ${Deno.execPath()}`);
}

function encode(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${text}\0`);
}

if (import.meta.main) {
  const [subcommand = "", ...args] = Deno.args;
  const flags = RESOLVING.includes(subcommand)
    ? await announceImportFlags()
    : [];
  exec([...Deno.args.slice(0, 1), ...flags, ...args]);
}
