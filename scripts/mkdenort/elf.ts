/**
 * Reads as much of a 64-bit ELF executable as is needed to give it another
 * loaded segment and another entry point, or a fixed address (`prelink.ts`).
 *
 * Numbers are plain: an address of 2^53 and more does not occur in an executable.
 *
 * Source: elf(5); System V ABI, "Object Files"; the AMD64 and AArch64 ELF supplements.
 *
 * @module
 */

/** Supported processors. */
export type Machine = "x86_64" | "aarch64";

/** Where the fields of `Elf64_Ehdr` lie, in bytes. */
export const HeaderField = {
  class: 4,
  dataEncoding: 5,
  type: 16,
  machine: 18,
  entry: 24,
  programHeadersOffset: 32,
  sectionHeadersOffset: 40,
  programHeaderSize: 54,
  programHeaderCount: 56,
  sectionHeaderCount: 60,
  sectionNamesIndex: 62,
} as const;

const HEADER_SIZE = 64;
const MAGIC = 0x7f454c46;
const ELFCLASS64 = 2;
const ELFDATA2LSB = 1;
const ET_DYN = 3;

/** Where the fields of `Elf64_Phdr` lie, in bytes. */
export const SegmentField = {
  type: 0,
  flags: 4,
  fileOffset: 8,
  address: 16,
  physicalAddress: 24,
  fileSize: 32,
  memorySize: 40,
  alignment: 48,
} as const;

export const SEGMENT_HEADER_SIZE = 56;
export const PT_LOAD = 1;
const PT_DYNAMIC = 2;
const PT_NOTE = 4;
const PF_X = 1;
const PF_R = 4;

const DYNAMIC_ENTRY_SIZE = 16;
const DT_NULL = 0;
export const DT_PLTRELSZ = 2;
const DT_STRTAB = 5;
export const DT_SYMTAB = 6;
export const DT_RELA = 7;
export const DT_RELASZ = 8;
export const DT_JMPREL = 23;

export const SYMBOL_SIZE = 24;

/** Where the fields of `Elf64_Rela` lie, in bytes; `r_info` is split into its halves. */
export const RelocationField = {
  address: 0,
  type: 8,
  symbolIndex: 12,
  addend: 16,
} as const;
export const RELOCATION_SIZE = 24;

/** The differences between the processors. */
interface MachineFacts {
  readonly name: Machine;
  /** Relocations that put the address of an imported function into a slot. */
  readonly importRelocations: readonly number[];
  /** The relocation that adds the executable's own address to a number. */
  readonly relativeRelocation: number;
  /** The relocation that takes the address from a function of the executable's own. */
  readonly indirectRelocation: number;
  /** Relocations whose place alone depends on the executable's address: by symbols, and thread-local. */
  readonly otherRelocations: readonly number[];
  /** The largest page that the kernel may use. */
  readonly pageSize: number;
}

/** By `e_machine`. */
const machines = new Map<number, MachineFacts>([
  [62, {
    name: "x86_64",
    importRelocations: [6, 7], // R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT
    relativeRelocation: 8,
    indirectRelocation: 37,
    otherRelocations: [1, 5, 16, 17, 18], // 64, COPY, DTPMOD64, DTPOFF64, TPOFF64
    pageSize: 0x1000,
  }],
  [183, {
    name: "aarch64",
    importRelocations: [1025, 1026], // R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT
    relativeRelocation: 1027,
    indirectRelocation: 1032,
    // ABS64, COPY, TLS_DTPMOD, TLS_DTPREL, TLS_TPREL, TLSDESC
    otherRelocations: [257, 1024, 1028, 1029, 1030, 1031],
    pageSize: 0x10000,
  }],
]);

/** A program header: a range of the file and where it goes in memory. */
export interface Segment {
  /** Where the header itself lies in the file. */
  readonly headerOffset: number;
  readonly type: number;
  readonly fileOffset: number;
  readonly address: number;
  readonly fileSize: number;
  readonly memorySize: number;
}

/** An executable, read. */
export interface Elf extends Omit<MachineFacts, "name"> {
  readonly bytes: Uint8Array;
  readonly machine: Machine;
  /** Address of the first instruction. */
  readonly entry: number;
  readonly segments: readonly Segment[];
}

/**
 * Reads the headers of a position-independent executable.
 *
 * @throws {Error} If the file differs; the message has the expected and the actual content
 */
export function parseElf(bytes: Uint8Array): Elf {
  const view = viewOf(bytes);
  expectAtLeast("ELF header", HEADER_SIZE, bytes.length);
  expectSame("magic", MAGIC, view.getUint32(0));
  expectSame("class", ELFCLASS64, view.getUint8(HeaderField.class));
  expectSame(
    "data encoding",
    ELFDATA2LSB,
    view.getUint8(HeaderField.dataEncoding),
  );
  expectSame("type", ET_DYN, view.getUint16(HeaderField.type, true));
  expectSame(
    "program header size",
    SEGMENT_HEADER_SIZE,
    view.getUint16(HeaderField.programHeaderSize, true),
  );
  const { name, ...facts } = getMachine(
    view.getUint16(HeaderField.machine, true),
  );
  return {
    bytes,
    machine: name,
    ...facts,
    entry: readU64(view, HeaderField.entry),
    segments: readSegments(bytes),
  };
}

/** Returns the facts of a processor. */
function getMachine(id: number): MachineFacts {
  const facts = machines.get(id);
  if (facts !== undefined) return facts;
  throw new Error(
    `Cannot read the executable: expected machine ${
      [...machines.keys()].join(" or ")
    }, found ${id}`,
  );
}

function readSegments(bytes: Uint8Array): Segment[] {
  const view = viewOf(bytes);
  const start = readU64(view, HeaderField.programHeadersOffset);
  const count = view.getUint16(HeaderField.programHeaderCount, true);
  const end = start + count * SEGMENT_HEADER_SIZE;
  expectAtLeast("program headers", end, bytes.length);
  return Array.from({ length: count }, (_, index) => {
    const headerOffset = start + index * SEGMENT_HEADER_SIZE;
    return {
      headerOffset,
      type: view.getUint32(headerOffset + SegmentField.type, true),
      fileOffset: readU64(view, headerOffset + SegmentField.fileOffset),
      address: readU64(view, headerOffset + SegmentField.address),
      fileSize: readU64(view, headerOffset + SegmentField.fileSize),
      memorySize: readU64(view, headerOffset + SegmentField.memorySize),
    };
  });
}

/**
 * Returns the address of the slot in which the dynamic loader leaves the
 * address of an imported function, for an indirect call.
 *
 * @throws {Error} If the executable is not dynamically linked or does not import `symbol`
 */
export function getImportSlot(elf: Elf, symbol: string): number {
  const view = viewOf(elf.bytes);
  const dynamic = new Map(
    readDynamic(elf).map(({ tag, value }) => [tag, value]),
  );
  const tables = [[DT_RELA, DT_RELASZ], [DT_JMPREL, DT_PLTRELSZ]] as const;
  for (const [tableTag, sizeTag] of tables) {
    const size = dynamic.get(sizeTag) ?? 0;
    if (size === 0) continue;
    const start = toFileOffset(elf, getTag(dynamic, tableTag));
    for (let at = start; at < start + size; at += RELOCATION_SIZE) {
      const type = view.getUint32(at + RelocationField.type, true);
      if (!elf.importRelocations.includes(type)) continue;
      const index = view.getUint32(at + RelocationField.symbolIndex, true);
      if (readSymbolName(elf, dynamic, index) === symbol) {
        return readU64(view, at + RelocationField.address);
      }
    }
  }
  throw new Error(
    `Cannot read the executable: expected an import of "${symbol}", found none`,
  );
}

/** An entry of the dynamic section. */
export interface DynamicEntry {
  readonly tag: number;
  readonly value: number;
  /** Where the value lies in the file. */
  readonly valueOffset: number;
}

/**
 * Reads the dynamic section, in which every tag we use occurs once.
 *
 * @throws {Error} If the file has none
 */
export function readDynamic(elf: Elf): DynamicEntry[] {
  const segment = elf.segments.find(({ type }) => type === PT_DYNAMIC);
  if (segment === undefined) {
    throw new Error(
      "Cannot read the executable: expected a PT_DYNAMIC segment, found none",
    );
  }
  const view = viewOf(elf.bytes);
  const entries: DynamicEntry[] = [];
  const { fileOffset, fileSize } = segment;
  for (
    let at = fileOffset;
    at < fileOffset + fileSize;
    at += DYNAMIC_ENTRY_SIZE
  ) {
    const tag = readU64(view, at);
    if (tag === DT_NULL) break;
    entries.push({ tag, value: readU64(view, at + 8), valueOffset: at + 8 });
  }
  return entries;
}

/** Returns the value of a tag of the dynamic section; throws without one. */
export function getTag(
  dynamic: ReadonlyMap<number, number>,
  tag: number,
): number {
  const value = dynamic.get(tag);
  if (value !== undefined) return value;
  throw new Error(
    `Cannot read the executable: expected dynamic tag ${tag}, found none`,
  );
}

function readSymbolName(
  elf: Elf,
  dynamic: ReadonlyMap<number, number>,
  index: number,
): string {
  const symbol = toFileOffset(elf, getTag(dynamic, DT_SYMTAB)) +
    index * SYMBOL_SIZE;
  const nameOffset = viewOf(elf.bytes).getUint32(symbol, true);
  const start = toFileOffset(elf, getTag(dynamic, DT_STRTAB)) + nameOffset;
  return new TextDecoder().decode(
    elf.bytes.subarray(start, elf.bytes.indexOf(0, start)),
  );
}

/** Finds the byte of the file that is loaded at an address. */
export function toFileOffset(elf: Elf, address: number): number {
  const segment = elf.segments.find((segment) =>
    segment.type === PT_LOAD && address >= segment.address &&
    address < segment.address + segment.fileSize
  );
  if (segment !== undefined) {
    return segment.fileOffset + address - segment.address;
  }
  throw new Error(
    `Cannot read the executable: address 0x${
      address.toString(16)
    } is not loaded from the file`,
  );
}

/** The place of a new segment. */
export interface SegmentPlace {
  /** The program header that is given up for it. */
  readonly headerOffset: number;
  readonly fileOffset: number;
  readonly address: number;
}

/**
 * Finds a place for one more segment: behind everything else, in the file and
 * in memory, with the program header of the notes (ABI tag and build-id, which
 * nothing needs at run time) for its own.
 *
 * @throws {Error} If the file has no notes, or a loaded segment follows them: the headers of loaded segments must be in order of address
 */
export function planSegment(elf: Elf): SegmentPlace {
  const noteAt = elf.segments.findLastIndex(({ type }) => type === PT_NOTE);
  const note = elf.segments[noteAt];
  if (note === undefined) {
    throw new Error(
      "Cannot add a segment: expected a PT_NOTE segment, found none",
    );
  }
  const lastLoadAt = elf.segments.findLastIndex(({ type }) => type === PT_LOAD);
  if (lastLoadAt > noteAt) {
    throw new Error(
      "Cannot add a segment: expected PT_NOTE after every PT_LOAD, " +
        `found PT_NOTE at ${noteAt} and PT_LOAD at ${lastLoadAt}`,
    );
  }
  const ends = elf.segments
    .filter(({ type }) => type === PT_LOAD)
    .map(({ address, memorySize }) => address + memorySize);
  return {
    headerOffset: note.headerOffset,
    fileOffset: roundUp(elf.bytes.length, elf.pageSize),
    address: roundUp(Math.max(0, ...ends), elf.pageSize),
  };
}

/** Returns a copy of the executable with one more segment, readable and executable, at which it starts. */
export function addSegment(
  elf: Elf,
  place: SegmentPlace,
  content: Uint8Array,
  entry: number,
): Uint8Array {
  const result = new Uint8Array(place.fileOffset + content.length);
  result.set(elf.bytes);
  result.set(content, place.fileOffset);
  const view = viewOf(result);
  writeU64(view, HeaderField.entry, entry);
  const at = place.headerOffset;
  view.setUint32(at + SegmentField.type, PT_LOAD, true);
  view.setUint32(at + SegmentField.flags, PF_R | PF_X, true);
  writeU64(view, at + SegmentField.fileOffset, place.fileOffset);
  writeU64(view, at + SegmentField.address, place.address);
  writeU64(view, at + SegmentField.physicalAddress, place.address);
  writeU64(view, at + SegmentField.fileSize, content.length);
  writeU64(view, at + SegmentField.memorySize, content.length);
  writeU64(view, at + SegmentField.alignment, elf.pageSize);
  return result;
}

/** Returns the next multiple of a unit. */
export function roundUp(size: number, unit: number): number {
  return Math.ceil(size / unit) * unit;
}

/** Returns a view of the same bytes. */
export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Reads a number of 64 bits, below 2^53. */
export function readU64(view: DataView, offset: number): number {
  return Number(view.getBigUint64(offset, true));
}

/** Writes a number of 64 bits. */
export function writeU64(view: DataView, offset: number, value: number): void {
  view.setBigUint64(offset, BigInt(value), true);
}

function expectSame(what: string, expected: number, found: number): void {
  if (found === expected) return;
  const [want, have] = [expected, found].map((number) =>
    `0x${number.toString(16)}`
  );
  throw new Error(
    `Cannot read the executable: expected ELF ${what} ${want}, found ${have}`,
  );
}

function expectAtLeast(what: string, expected: number, found: number): void {
  if (found >= expected) return;
  throw new Error(
    `Cannot read the executable: expected ${expected} bytes up to the end of the ${what}, found ${found}`,
  );
}
