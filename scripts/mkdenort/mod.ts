/**
 * Creates a stand-in for `denort`, the runtime that `deno compile` puts into
 * executables, out of an ordinary `deno`: for machines that cannot download it.
 *
 * ```ts ignore
 * await makeDenortFile(Deno.execPath(), "denort", ["--single-threaded"]);
 * // DENORT_BIN=denort deno compile -A --no-check --no-config --no-code-cache -o PROGRAM BUNDLE.js
 * ```
 *
 * An ordinary `deno` obeys its command line and environment. The stand-in gets
 * a piece of start-up code (`launcher/denort.c`, here as machine code) that gives it a
 * fixed command line, in front of the arguments of the program, and an environment
 * in which it keeps to itself: no file written, no socket opened, no configuration
 * read.
 * The command line makes it run a small script (`loader.ts`, which is behind that
 * code), which puts the environment back as it was and runs the program that
 * `deno compile` attached.
 *
 * What differs from the real `denort`: the program has to be one script without
 * imports, as `deno bundle --format iife` makes it; it always has all
 * permissions; `Deno.build.standalone` is false; `/proc` has to be mounted; a
 * program that is started in a deleted directory finds itself in `/`.
 *
 * @module
 */

import { addSegment, getImportSlot, parseElf, planSegment } from "./elf.ts";
import { formatBoot, formatLoader } from "./loader.ts";
import { readObject, withFacts } from "./object.ts";

export { LINKED_HEAD, LINKED_TAIL } from "./loader.ts";

/**
 * Variables that change what `deno run` does before or beside the program:
 * `DENO_V8_FLAGS=--help` alone would make a plugin print V8's options. The
 * program sees them all the same, as it does those in {@linkcode PINNED}.
 */
const DROPPED_PREFIXES = [
  "DENO_",
  "NODE_",
  "OTEL_",
  "NPM_CONFIG_",
  "npm_config_",
  "JSR_",
  "COMPLETE=",
  "FORCE_COLOR=",
  "SSLKEYLOGFILE=",
] as const;

/** Variables that `deno run` is started with. */
const PINNED = {
  /** Its caches go where nothing can be made. */
  DENO_DIR: "/dev/null/deno",
  /** On a terminal it would say that they cannot be made. */
  DENO_LOG: "error,deno::cache=off",
  DENO_NO_UPDATE_CHECK: "1",
  /** It would make itself a link named `node` and put that in the way of children. */
  DENO_DISABLE_NODE_SHIM: "1",
  NO_COLOR: "1",
  /** It reads ~/.npmrc, come what may, and gives up if there is a mistake in it. */
  HOME: "/proc/nonexistent",
} as const;

/**
 * The command line in front of the script. The script stands for itself, so
 * there is nothing to look for, to fetch, to keep or to ask; some of the flags
 * say what follows from others today. With V8's flags and the script, they are an even
 * number: the stack has to stay aligned to 16 bytes.
 */
const ARGUMENTS = [
  "run",
  "--allow-all",
  "--no-config",
  "--no-lock",
  "--no-npm",
  "--no-remote",
  "--cached-only",
  "--no-code-cache",
  "--quiet",
  "--ext=js",
] as const;

/** Formats a list for the start-up code: each text with a NUL, and one more. */
function formatList(texts: readonly string[]): string {
  return texts.map((text) => `${text}\0`).join("") + "\0";
}

/**
 * Creates a stand-in for `denort`.
 *
 * The same bytes always give the same result.
 *
 * @param deno An ordinary `deno` for Linux, of any processor in {@linkcode Machine}
 * @param v8Flags Flags for V8, such as `--single-threaded`
 * @returns An executable for the same processor, to be used as `DENORT_BIN`
 * @throws {Error} If `deno` is not built as expected; the message says what was expected and what was found
 */
export function makeDenort(
  deno: Uint8Array,
  v8Flags: readonly string[],
): Uint8Array {
  const elf = parseElf(deno);
  const place = planSegment(elf);
  const loader = new TextEncoder().encode(formatLoader({
    droppedPrefixes: DROPPED_PREFIXES,
    set: Object.keys(PINNED),
  }));
  const code = readObject(
    new URL(`denort.${elf.machine}.txt`, import.meta.url),
  );
  const functions = ["setenv", "getcwd", "chdir"]
    .map((name) => getImportSlot(elf, name));
  const assemble = (loaderAt: number): Uint8Array => {
    const args = [
      ...ARGUMENTS,
      `--v8-flags=${v8Flags.join(",")}`,
      formatUrl(formatBoot(loaderAt, loader.length)),
    ];
    const texts = [DROPPED_PREFIXES, Object.entries(PINNED).flat(), args]
      .map(formatList).join("");
    return withFacts(code, {
      numbers: [elf.entry, ...functions].map((at) => at - place.address),
      texts: [[texts, texts.length + 1]],
    });
  };
  // The loader follows the stub, whose length does not depend on the place.
  const { length } = assemble(0);
  const stub = assemble(place.fileOffset + length);
  const content = new Uint8Array([...stub, ...loader]);
  return addSegment(elf, place, content, place.address);
}

function formatUrl(script: string): string {
  return `data:text/javascript;base64,${btoa(script)}`;
}

/**
 * Creates the file `output` from the file `deno`.
 *
 * It appears complete or not at all.
 *
 * @throws {Error} As {@linkcode makeDenort}, with the name of the file
 */
export async function makeDenortFile(
  deno: string,
  output: string,
  v8Flags: readonly string[],
): Promise<void> {
  let denort: Uint8Array;
  try {
    denort = makeDenort(await Deno.readFile(deno), v8Flags);
  } catch (cause) {
    throw new Error(`Cannot make a stand-in for denort from "${deno}"`, {
      cause,
    });
  }
  const unfinished = `${output}.${Deno.pid}.tmp`;
  await Deno.writeFile(unfinished, denort, { mode: 0o755 });
  await Deno.rename(unfinished, output);
}
