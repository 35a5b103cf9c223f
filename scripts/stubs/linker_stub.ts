/**
 * Puts the linker stub into an executable: the program `launcher/libc.c`, which starts
 * the dynamic linker as the kernel would do by PT_INTERP.
 *
 * Reason: the kernel knows the dynamic linker by an absolute path only; the stub
 * looks for it in a directory beside the executable first, which has its libraries,
 * too.
 * Gain: no time; with that directory an executable runs where there is no glibc,
 * wherever both lie.
 * Off: `--no-linker-stub`.
 *
 * @module
 */

import { LIBRARY_DIRECTORY } from "../../base/files/libraries.ts";
import {
  type DynamicEntry,
  type Elf,
  getTag,
  type Machine,
  parseElf,
  PT_LOAD,
  readDynamic,
  SEGMENT_HEADER_SIZE,
  SegmentField,
  viewOf,
} from "../mkdenort/elf.ts";
import { withFacts } from "../mkdenort/object.ts";
import { addCode, readLauncher } from "./add_code.ts";

/** Where glibc's dynamic linker is, which every executable for it names. */
export const LINKERS: Readonly<Record<Machine, string>> = {
  x86_64: "/lib64/ld-linux-x86-64.so.2",
  aarch64: "/lib/ld-linux-aarch64.so.1",
};

const PT_NULL = 0, PT_INTERP = 3;
const DT_STRTAB = 5, DT_FLAGS = 30, DT_FLAGS_1 = 0x6ffffffb;
/** Flags of DT_FLAGS and DT_FLAGS_1: imports are resolved at the start. */
const DF_BIND_NOW = 8, DF_1_NOW = 1;
const PF_W = 2;
/** A dynamic tag has its value behind its number. */
const TAG_BYTES = 8;

/** Room of the stub for the executable's own program headers, in bytes. */
const COPY_BYTES = 4096;
/** Room of the stub for a path, in bytes. */
const PATH_BYTES = 64;

/** The message where there is no dynamic linker. */
function formatFailure(linker: string): string {
  const [, name = ""] = /([^/]+)$/.exec(linker) ?? [];
  return `${
    JSON.stringify(
      {
        cniVersion: "1.1.0",
        code: 5,
        msg:
          `Cannot start: there is no "${linker}", and no "${LIBRARY_DIRECTORY}/${name}" beside the executable`,
        details:
          "The node has no glibc: install the release file that ends in -any.tar.gz",
      },
      null,
      4,
    )
  }\n`;
}

/**
 * Returns a copy of a position-independent executable that starts the dynamic linker
 * by itself. The same bytes always give the same result.
 *
 * @throws {Error} If it is not as expected
 */
export function attachLinkerStub(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const elf = parseElf(bytes);
  const linker = LINKERS[elf.machine];
  const interpreter = findInterpreter(elf, linker);
  const { tagAddress, textsAddress } = findDynamic(elf);
  const [, name = ""] = /([^/]+)$/.exec(linker) ?? [];
  const failure = formatFailure(linker);
  const result = addCode(
    elf,
    (origin) =>
      withFacts(readLauncher("libc", elf.machine), {
        numbers: [elf.entry, tagAddress, textsAddress].map((at) => at - origin),
        texts: [
          [linker, PATH_BYTES],
          [`/${LIBRARY_DIRECTORY}/${name}`, PATH_BYTES],
          [`$ORIGIN/${LIBRARY_DIRECTORY}`, PATH_BYTES],
          [failure, failure.length + 1],
        ],
      }),
  );
  hide(parseElf(result), interpreter);
  return result;
}

/** Finds the header that names the dynamic linker. */
function findInterpreter({ bytes, segments }: Elf, linker: string): number {
  if (segments.length >= COPY_BYTES / SEGMENT_HEADER_SIZE) {
    throw new Error(
      `Cannot add the linker stub: found ${segments.length} program headers`,
    );
  }
  const hidden = segments.find(({ type }) => type === PT_NULL);
  const index = segments.findIndex(({ type }) => type === PT_INTERP);
  const { fileOffset = 0, fileSize = 0 } = segments[index] ?? {};
  const found = new TextDecoder()
    .decode(bytes.subarray(fileOffset, fileOffset + fileSize));
  if (hidden === undefined && found === `${linker}\0`) return index;
  throw new Error(
    `Cannot add the linker stub: expected the dynamic linker "${linker}", found "${found}"`,
  );
}

/** Hides a header from the kernel. Headers before those of loaded segments keep their place. */
function hide({ bytes, segments }: Elf, index: number): void {
  const { headerOffset = 0 } = segments[index] ?? {};
  viewOf(bytes).setUint32(headerOffset + SegmentField.type, PT_NULL, true);
}

/** Finds a dynamic tag that can be replaced, and the texts that tags name. */
function findDynamic(
  elf: Elf,
): { tagAddress: number; textsAddress: number } {
  const entries = readDynamic(elf);
  const find = (tag: number): DynamicEntry | undefined =>
    entries.find((entry) => entry.tag === tag);
  const flags = find(DT_FLAGS);
  const isTwice = flags?.value === DF_BIND_NOW &&
    ((find(DT_FLAGS_1)?.value ?? 0) & DF_1_NOW) !== 0;
  if (flags === undefined || !isTwice) {
    throw new Error(
      "Cannot add the linker stub: expected imports to be resolved at the start (DF_BIND_NOW and DF_1_NOW)",
    );
  }
  const dynamic = new Map(entries.map(({ tag, value }) => [tag, value]));
  return {
    tagAddress: toWritableAddress(elf, flags.valueOffset - TAG_BYTES),
    textsAddress: getTag(dynamic, DT_STRTAB),
  };
}

/** Returns where in memory a place of the file is, which the stub can write to. */
function toWritableAddress({ bytes, segments }: Elf, offset: number): number {
  const segment = segments.find((
    { type, fileOffset, fileSize, headerOffset },
  ) =>
    type === PT_LOAD && offset >= fileOffset &&
    offset < fileOffset + fileSize &&
    (viewOf(bytes).getUint8(headerOffset + SegmentField.flags) & PF_W) !== 0
  );
  if (segment !== undefined) {
    return offset - segment.fileOffset + segment.address;
  }
  throw new Error(
    "Cannot add the linker stub: expected dynamic tags that can be written to",
  );
}
