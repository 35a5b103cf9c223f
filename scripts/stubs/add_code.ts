/**
 * Adds machine code to an executable, to run before what is in it.
 *
 * It becomes one more segment, behind all others in the file and in memory, with
 * program headers of its own behind: there is no room behind the old ones.
 *
 * Source: elf(5); Linux fs/binfmt_elf.c, which up to 5.17 takes it that the program
 * headers lie in memory where they lie in the file, counted from the first segment.
 *
 * @module
 */

import {
  type Elf,
  HeaderField,
  type Machine,
  PT_LOAD,
  roundUp,
  SEGMENT_HEADER_SIZE,
  SegmentField,
  viewOf,
  writeU64,
} from "../mkdenort/elf.ts";
import { readObject } from "../mkdenort/object.ts";

/** Returns the machine code of a program, which runs from the start of any page. */
export function readLauncher(
  program: "call" | "libc" | "testing/engine" | "testing/sender",
  machine: Machine,
): Uint8Array<ArrayBuffer> {
  const path = `../../launcher/objects/${program}.${machine}.txt`;
  return readObject(new URL(path, import.meta.url));
}

const PT_PHDR = 6;
const PF_R_X = 5;
/** Of program headers. */
const HEADERS_ALIGNMENT = 8;

/**
 * Returns a copy of a position-independent executable that starts with other code.
 *
 * @param assemble Returns the code for the address of its first instruction, which is the start of a page
 * @throws {Error} If the executable is not as expected
 */
export function addCode(
  elf: Elf,
  assemble: (origin: number) => Uint8Array,
): Uint8Array<ArrayBuffer> {
  const at = findPlace(elf);
  const code = assemble(at);
  const headersAt = at + roundUp(code.length, HEADERS_ALIGNMENT);
  const headersSize = (elf.segments.length + 1) * SEGMENT_HEADER_SIZE;
  const end = headersAt + headersSize;
  const result = new Uint8Array(end);
  result.set(elf.bytes);
  result.set(code, at);
  result.set(
    makeHeaders(elf, [at, end - at], [headersAt, headersSize]),
    headersAt,
  );
  const view = viewOf(result);
  writeU64(view, HeaderField.entry, at);
  writeU64(view, HeaderField.programHeadersOffset, headersAt);
  view.setUint16(HeaderField.programHeaderCount, elf.segments.length + 1, true);
  return result;
}

/**
 * Finds a place behind everything, with the same offset in the file as in memory.
 *
 * @throws {Error} If the file does not begin at the address 0
 */
function findPlace(elf: Elf): number {
  const loaded = elf.segments.filter(({ type }) => type === PT_LOAD);
  const [first] = loaded;
  if (first?.address !== first?.fileOffset) {
    throw new Error(
      "Cannot add code to the executable: expected the first segment at its offset in the file",
    );
  }
  const ends = loaded.map(({ address, memorySize }) => address + memorySize);
  return roundUp(Math.max(elf.bytes.length, ...ends), elf.pageSize);
}

/** Where something begins, and its size. */
type Range = readonly [at: number, size: number];

/** Returns the program headers, with one more behind those of loaded segments. */
function makeHeaders(
  elf: Elf,
  segment: Range,
  headersRange: Range,
): Uint8Array {
  const last = elf.segments.findLastIndex(({ type }) => type === PT_LOAD) + 1;
  const headers = elf.segments.map(({ headerOffset }) =>
    Uint8Array.from(
      elf.bytes.subarray(headerOffset, headerOffset + SEGMENT_HEADER_SIZE),
    )
  );
  headers.splice(last, 0, makeHeader(elf, segment));
  const result = new Uint8Array(headers.length * SEGMENT_HEADER_SIZE);
  headers.forEach((header, index) => {
    const view = viewOf(header);
    if (view.getUint32(SegmentField.type, true) === PT_PHDR) {
      place(view, headersRange);
    }
    result.set(header, index * SEGMENT_HEADER_SIZE);
  });
  return result;
}

function makeHeader({ pageSize }: Elf, range: Range): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(SEGMENT_HEADER_SIZE));
  view.setUint32(SegmentField.type, PT_LOAD, true);
  view.setUint32(SegmentField.flags, PF_R_X, true);
  place(view, range);
  writeU64(view, SegmentField.alignment, pageSize);
  return new Uint8Array(view.buffer);
}

/** Writes where a segment lies. */
function place(header: DataView, [at, size]: Range): void {
  const { fileOffset, address, physicalAddress } = SegmentField;
  for (const field of [fileOffset, address, physicalAddress]) {
    writeU64(header, field, at);
  }
  for (const field of [SegmentField.fileSize, SegmentField.memorySize]) {
    writeU64(header, field, size);
  }
}
