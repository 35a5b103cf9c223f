/**
 * What an ordinary `deno` is given to run, to make it run the program that
 * `deno compile` attached to the executable.
 *
 * The functions here are turned into text and become a `data:` URL, so each of
 * them may use nothing but its parameters and Deno.
 *
 * @module
 */

import { LINKED_HEAD } from "../compile/link.ts";

/** Which variables the start-up code changed. */
export interface ChangedVariables {
  /** How the variables begin that it left out. */
  readonly droppedPrefixes: readonly string[];
  /** Names of the variables that it set. */
  readonly set: readonly string[];
}

/** Returns the source text of a script that restores the environment and runs the attached program. */
export function formatLoader(changed: ChangedVariables): string {
  return [
    `(${restoreEnvironment})(${JSON.stringify(changed)});`,
    `(${runProgram})((${readProgram})((${readAttachment})()),${
      JSON.stringify(LINKED_HEAD)
    });`,
  ].join("\n");
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

/**
 * Reads what `deno compile` attached: the content of the executable's only note.
 *
 * Source: libsui's ELF format: a note named `SUI` whose content begins with the
 * length (16 bits) and the text of a section name.
 */
function readAttachment(): Uint8Array<ArrayBuffer> {
  using file = Deno.openSync("/proc/self/exe");
  const read = (offset: number, size: number): DataView<ArrayBuffer> => {
    const bytes = new Uint8Array(size);
    file.seekSync(offset, Deno.SeekMode.Start);
    for (let at = 0; at < size;) {
      const count = file.readSync(bytes.subarray(at));
      if (count === null) {
        throw new Error("denort stand-in: the file is cut off");
      }
      at += count;
    }
    return new DataView(bytes.buffer);
  };
  const readU64 = (view: DataView, at: number): number =>
    Number(view.getBigUint64(at, true));

  // The ELF header names the place and number of the program headers, 56 bytes each.
  const header = read(0, 64);
  const count = header.getUint16(56, true);
  const segments = read(readU64(header, 32), 56 * count);
  for (let at = 0; at < 56 * count; at += 56) {
    const isNote = segments.getUint32(at, true) === 4;
    if (!isNote) continue;
    const note = read(readU64(segments, at + 8), readU64(segments, at + 32));
    // 12 bytes of sizes and type, "SUI\0", the section's name
    const start = 16 + 2 + note.getUint16(16, true);
    return new Uint8Array(note.buffer, start);
  }
  throw new Error("denort stand-in: no program is attached");
}

/** An attached program: a script in UTF-8. */
interface Program {
  readonly name: string;
  readonly text: Uint8Array;
}

/**
 * Finds the program in what `deno compile` attached.
 *
 * Source: denoland/deno cli/standalone/binary.rs and cli/rt/binary.rs: magic,
 * metadata, npm snapshot, specifiers, redirects, remote modules, files by name,
 * files; what has a length has it in front, in 64 bits.
 */
function readProgram(attachment: Uint8Array<ArrayBuffer>): Program {
  const view = new DataView(
    attachment.buffer,
    attachment.byteOffset,
    attachment.byteLength,
  );
  const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
  const fail = (why: string): never => {
    throw new Error(`denort stand-in: ${why}`);
  };
  let at = 0;
  const take = (size: number): Uint8Array =>
    attachment.subarray(at, at += size);
  const takeBlock = (): Uint8Array => {
    at += 8;
    return take(Number(view.getBigUint64(at - 8, true)));
  };

  if (decode(take(8)) !== "d3n0l4nd") fail("unknown section format");
  const metadata = JSON.parse(decode(takeBlock()));
  const npmSnapshot = takeBlock();
  const moduleCounts = take(12); // specifiers, redirects, remote modules
  const entries = JSON.parse(decode(takeBlock()));
  const files = takeBlock();
  if (npmSnapshot.length > 0 || moduleCounts.some((byte) => byte !== 0)) {
    fail("the program must be bundled into one file without imports");
  }
  if (metadata.argv.length > 0) fail("arguments cannot be built in");
  if (entries.length !== 1 || entries[0].File?.n !== metadata.entrypoint_key) {
    fail("the program must be one file");
  }
  const { n: name, o: [start, size] } = entries[0].File;
  return { name, text: files.subarray(start, start + size) };
}

/**
 * Runs a program. Of one that `compile/link.ts` has linked the lines in between,
 * which are comments, are only looked at when they are asked for.
 *
 * @param linkedHead The first line of such a one
 */
function runProgram({ name, text }: Program, linkedHead: string): void {
  const decoder = new TextDecoder();
  const decode = (from: number, to: number): string =>
    decoder.decode(text.subarray(from, to));
  const sourceUrl = `\n//# sourceURL=file:///${name}`;
  const LF = 10;
  if (decode(0, text.indexOf(LF)) !== linkedHead) {
    (0, eval)(`"use strict";${decode(0, text.length)}${sourceUrl}`);
    return;
  }
  const starts = [0];
  while (true) {
    const end = text.indexOf(LF, starts.at(-1));
    if (end === -1) break;
    starts.push(end + 1);
  }
  const line = (number: number): string =>
    decode(starts[number] ?? 0, (starts[number + 1] ?? 1) - 1);
  const lastLine = line(starts.length - 2);
  const code = `"use strict";${linkedHead}${lastLine}${sourceUrl}`;
  new Function("__line", code)(line);
}
