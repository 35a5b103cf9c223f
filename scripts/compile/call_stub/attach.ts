/**
 * Puts the call stub into an executable, to run before what is in it.
 *
 * It becomes one more segment, behind all others in the file and in memory, with
 * program headers of its own behind: there is no room behind the old ones.
 *
 * Source: elf(5); Linux fs/binfmt_elf.c, which up to 5.17 takes it that the program
 * headers lie in memory where they lie in the file, counted from the first segment.
 *
 * @module
 */

import { describeError } from "../../../cni/error.ts";
import {
  type Elf,
  HeaderField,
  type Machine,
  parseElf,
  PT_LOAD,
  roundUp,
  SEGMENT_HEADER_SIZE,
  SegmentField,
  viewOf,
  writeU64,
} from "../../mkdenort/elf.ts";
import { Arm64Processor } from "./aarch64.ts";
import type { Processor } from "./processor.ts";
import { DENO_ENTRY } from "./give_back.ts";
import { type StubFacts, writeStub } from "./stub.ts";
import { X86Processor } from "./x86_64.ts";

const PT_PHDR = 6;
const PF_R_X = 5;
/** Of program headers. */
const HEADERS_ALIGNMENT = 8;

/** Assembles the stub. */
export interface StubPlace extends StubFacts {
  /** Address of its first instruction: the start of a page. */
  readonly origin: number;
  /** Where the executable used to start. */
  readonly entry: number;
}

/** Returns the stub's machine code, which begins at `origin`. */
export function assembleCallStub(
  machine: Machine,
  { origin, entry, build }: StubPlace,
): Uint8Array<ArrayBuffer> {
  const processor = machine === "x86_64"
    ? new X86Processor(origin)
    : new Arm64Processor(origin);
  const { code } = processor;
  code.label(DENO_ENTRY, entry);
  writeStub(processor satisfies Processor, code, { build });
  return code.assemble();
}

/**
 * Returns a copy of a position-independent executable that runs the stub first. The
 * same bytes always give the same result.
 *
 * @throws {Error} If it is not as expected
 */
export function attachCallStub(
  bytes: Uint8Array,
  facts: StubFacts,
): Uint8Array<ArrayBuffer> {
  const elf = parseElf(bytes);
  const at = findPlace(elf);
  const code = assembleCallStub(elf.machine, {
    ...facts,
    origin: at,
    entry: elf.entry,
  });
  const headersAt = at + roundUp(code.length, HEADERS_ALIGNMENT);
  const headersSize = (elf.segments.length + 1) * SEGMENT_HEADER_SIZE;
  const end = headersAt + headersSize;
  const result = new Uint8Array(end);
  result.set(bytes);
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
      "Cannot add the call stub: expected the first segment at its offset in the file",
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

/**
 * Puts the call stub into the executable in a file. A file that is not as expected
 * stays as it is.
 *
 * @returns What to tell the user; nothing if all went well
 */
export async function attachCallStubFile(
  path: string,
  build: string,
): Promise<string | undefined> {
  try {
    const bytes = attachCallStub(await Deno.readFile(path), { build });
    await Deno.writeFile(path, bytes);
    return undefined;
  } catch (error) {
    return `"${path}" asks a node daemon some 15 ms later than it could: ${
      describeError(error)
    }`;
  }
}
