/**
 * What an ordinary `deno` is given to run, to make it run the program that
 * `deno compile` attached to the executable.
 *
 * The functions here are turned into text, so each of them may use nothing but its
 * parameters and Deno. deno is given a `data:` URL of a few words, which reads that
 * text from the executable.
 *
 * @module
 */

/**
 * How a script begins that can be read in parts. Its code is in the first line, which
 * leaves a function open for comments. In the code, `__read` is a function that
 * returns any bytes of the comments.
 */
export const LINKED_HEAD = "(()=>{/*chunks*/";
/** How it ends. */
export const LINKED_TAIL = "}})();";

/** Which variables the start-up code changed. */
export interface ChangedVariables {
  /** How the variables begin that it left out. */
  readonly droppedPrefixes: readonly string[];
  /** Names of the variables that it set. */
  readonly set: readonly string[];
}

/**
 * Returns the source text of the loader: the body of a function of the open
 * executable, `file`, which restores the environment and runs the attached program.
 */
export function formatLoader(changed: ChangedVariables): string {
  return [
    '"use strict";',
    `(${restoreEnvironment})(${JSON.stringify(changed)});`,
    `(${runProgram})((${openProgram})(file),${
      JSON.stringify([LINKED_HEAD, LINKED_TAIL])
    });`,
  ].map(dropComments).join("\n");
}

/** Drops comment lines and indentation, which V8 would look at in each start. */
function dropComments(script: string): string {
  return script.replaceAll(/^\s*(?:\/\*\*.*|\*.*|\/\/.*)?\n|^\s+/gm, "");
}

/**
 * Returns the source text of the script that deno runs, which runs the loader.
 *
 * deno takes a quarter of a millisecond for each KiB of this one, ten times what V8
 * takes for what it loads.
 *
 * @param start Where the loader lies in the executable, in bytes
 * @param size The loader's size in bytes; it is ASCII
 */
export function formatBoot(start: number, size: number): string {
  // The same length for any place.
  const [at, length] = [start, size].map((number) => `${number}`.padEnd(12));
  return `const f=Deno.openSync("/proc/self/exe"),b=new Uint8Array(${length});` +
    `f.seekSync(${at},0);f.readSync(b);` +
    'new Function("file",new TextDecoder().decode(b))(f)';
}

/**
 * Puts back the environment that the caller gave, for the program and for what
 * it starts.
 *
 * `/proc/self/environ` shows it as it was when the process began. Where a
 * variable occurs twice the first one counts, as for getenv(3).
 */
function restoreEnvironment({ droppedPrefixes, set }: ChangedVariables): void {
  for (const name of set) Deno.env.delete(name);
  const seen = new Set<string>();
  for (const entry of Deno.readTextFileSync("/proc/self/environ").split("\0")) {
    const end = entry.indexOf("=");
    const name = entry.slice(0, Math.max(end, 0));
    if (name === "" || seen.has(name)) continue;
    seen.add(name);
    if (
      set.includes(name) ||
      droppedPrefixes.some((prefix) => entry.startsWith(prefix))
    ) Deno.env.set(name, entry.slice(end + 1));
  }
}

/** An attached program: a script in UTF-8. */
interface Program {
  readonly name: string;
  /** Length of the script in bytes. */
  readonly size: number;
  /** Reads a part of the script, from one byte to before another. */
  readonly read: (from: number, to: number) => string;
}

/**
 * Finds the program in what `deno compile` attached: the content of the
 * executable's only note. Leaves the file open for the parts of the program.
 *
 * Source: libsui's ELF format: a note named `SUI` whose content begins with the
 * length (16 bits) and the text of a section name. denoland/deno
 * cli/standalone/binary.rs and cli/rt/binary.rs: magic, metadata, npm snapshot,
 * specifiers, redirects, remote modules, files by name, files; what has a length
 * has it in front, in 64 bits.
 */
function openProgram(file: Deno.FsFile): Program {
  const decoder = new TextDecoder();
  const fail = (why: string): never => {
    throw new Error(`denort stand-in: ${why}`);
  };
  // What belongs together lies together: few reads get all of it.
  const buffer = new Uint8Array(16 * 1024);
  let at = 0, bufferStart = 0, bufferEnd = 0;
  const fill = (bytes: Uint8Array): number => {
    file.seekSync(at, Deno.SeekMode.Start);
    let done = 0, count: number | null = 0;
    do {
      done += count;
      count = file.readSync(bytes.subarray(done));
    } while (count !== null && done + count < bytes.length);
    return done + (count ?? 0);
  };
  const readBytes = (size: number): DataView<ArrayBuffer> => {
    const isLarge = size > buffer.length;
    const bytes = isLarge ? new Uint8Array(size) : buffer;
    if (isLarge || at < bufferStart || at + size > bufferEnd) {
      bufferStart = at;
      bufferEnd = at + fill(bytes);
      if (bufferEnd < at + size) fail("the file is cut off");
      if (isLarge) bufferEnd = bufferStart;
    }
    at += size;
    const start = isLarge ? 0 : at - size - bufferStart;
    return new DataView(bytes.buffer, start, size);
  };
  const readText = (size: number): string => decoder.decode(readBytes(size));
  const getU64 = (view: DataView, offset: number): number =>
    Number(view.getBigUint64(offset, true));
  const readU64 = (): number => getU64(readBytes(8), 0);

  // The ELF header names the place and number of the program headers, 56 bytes each.
  const header = readBytes(64);
  at = getU64(header, 32);
  const segments = readBytes(56 * header.getUint16(56, true));
  let segment = 0;
  while (segments.getUint32(segment, true) !== 4) {
    segment += 56;
    if (segment === segments.byteLength) fail("no program is attached");
  }
  // 12 bytes of sizes and type, "SUI\0", the section's name
  at = getU64(segments, segment + 8) + 16;
  const sectionName = readText(readBytes(2).getUint16(0, true));

  if (sectionName + readText(8) !== "d3n0l4ndd3n0l4nd") {
    fail("unknown section format");
  }
  const metadata = JSON.parse(readText(readU64()));
  const snapshotSize = readU64();
  // Specifiers, redirects, remote modules
  if (snapshotSize > 0 || readText(12) !== "\0".repeat(12)) {
    fail("the program must be bundled into one file without imports");
  }
  if (metadata.argv.length > 0) fail("arguments cannot be built in");
  const entries = JSON.parse(readText(readU64()));
  if (entries.length !== 1 || entries[0].File?.n !== metadata.entrypoint_key) {
    fail("the program must be one file");
  }
  const { n: name, o: [offset, size] } = entries[0].File;
  const start = at + 8 + offset;
  const read = (from: number, to: number): string => {
    at = start + from;
    return readText(to - from);
  };
  return { name, size, read };
}

/**
 * Runs a program. If it can be read in parts, its comments are read when they are
 * asked for.
 *
 * @param head How such a program begins
 * @param tail How such a program ends
 */
function runProgram(
  { name, size, read }: Program,
  [head, tail]: readonly [string, string],
): void {
  const sourceUrl = `\n//# sourceURL=file:///${name}`;
  const enough = 4096;
  let code = read(0, Math.min(size, enough));
  if (!code.startsWith(head)) {
    (0, eval)(`"use strict";${read(0, size)}${sourceUrl}`);
    return;
  }
  // The first line is ASCII: a character is a byte.
  while (!code.includes("\n")) {
    code += read(code.length, Math.min(size, code.length + enough));
  }
  const start = code.indexOf("\n") + 1;
  new Function(
    "__read",
    `"use strict";${code.slice(0, start)}${tail}${sourceUrl}`,
  )((from: number, to: number) => read(start + from, start + to));
}
