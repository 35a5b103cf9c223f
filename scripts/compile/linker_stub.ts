/**
 * The linker stub: code that starts the dynamic linker, as the kernel would do by
 * PT_INTERP.
 *
 * Reason: the kernel knows the dynamic linker by an absolute path only; the stub
 * looks for it in a directory beside the executable first, which has its libraries,
 * too.
 * Gain: no time; with that directory an executable runs where there is no glibc,
 * wherever both lie.
 * Off: `--no-linker-stub`.
 *
 * 1. The path is that of the executable, with {@linkcode LIBRARY_DIRECTORY} and the
 *    name of the dynamic linker in place of its last part. If there is no such file,
 *    it is the one that the executable named.
 * 2. Its segments are mapped.
 * 3. The auxiliary vector gets what it would have from the kernel: where the dynamic
 *    linker lies, where the executable starts, and program headers with PT_INTERP,
 *    which the file hides from the kernel as PT_NULL.
 *
 * The dynamic linker finds the libraries by DT_RPATH. DT_RUNPATH would be for the
 * executable's own imports only, and gives way to LD_LIBRARY_PATH of the caller,
 * whose libraries may be of another libc. The stub writes the tag in memory, and only
 * if the directory is there: the dynamic linker makes 22 system calls to find that it
 * is not.
 *
 * Source: Linux fs/binfmt_elf.c; glibc elf/rtld.c `rtld_setup_main_map`, which takes
 * the executable's address from AT_PHDR and PT_PHDR, and wants PT_INTERP; ld.so(8).
 *
 * @module
 */

import { LIBRARY_DIRECTORY } from "../../cni/files/libraries.ts";
import { WORD_BYTES } from "../../daemon/protocol/call_format.ts";
import type { Assembler } from "../mkdenort/assembler.ts";
import {
  type DynamicEntry,
  type Elf,
  getTag,
  HeaderField,
  type Machine,
  parseElf,
  PT_LOAD,
  readDynamic,
  SEGMENT_HEADER_SIZE,
  SegmentField,
  viewOf,
} from "../mkdenort/elf.ts";
import { addCode } from "./add_code.ts";
import { listOperations, type Operation } from "./call_stub/listing.ts";
import type { Kept } from "./call_stub/processor.ts";
import { createProcessor } from "./call_stub/processors.ts";
import { codeOf, Writer } from "./call_stub/writer.ts";

/** Where glibc's dynamic linker is, which every executable for it names. */
export const LINKERS: Readonly<Record<Machine, string>> = {
  x86_64: "/lib64/ld-linux-x86-64.so.2",
  aarch64: "/lib/ld-linux-aarch64.so.1",
};

const PT_NULL = 0, PT_INTERP = 3, PT_PHDR = 6;
const DT_STRTAB = 5, DT_RPATH = 15, DT_FLAGS = 30, DT_FLAGS_1 = 0x6ffffffb;
/** Flags of DT_FLAGS and DT_FLAGS_1: imports are resolved at the start. */
const DF_BIND_NOW = 8, DF_1_NOW = 1;

/** Source: linux/auxvec.h. */
const Auxiliary = {
  headers: 3,
  ownCount: 5,
  pageSize: 6,
  base: 7,
  entry: 9,
} as const;

/** Source: Linux mman-common.h, fcntl.h. */
const PROT_READ = 1, PROT_WRITE = 2, PROT_EXEC = 4;
const MAP_PRIVATE = 2, MAP_FIXED = 0x10, MAP_ANONYMOUS = 0x20;
const O_CLOEXEC = 0o2000000;
const NO_FD = 0xffff_ffff;
const STDOUT = 1;

const PF_W = 2;
/** Bits of `p_flags`, and what mmap(2) calls them. */
const PROTECTIONS = [[4, PROT_READ], [PF_W, PROT_WRITE], [
  1,
  PROT_EXEC,
]] as const;

/** Bytes of the dynamic linker that are read: its header and program headers. */
const HEAD_BYTES = 1024;
const HEADER_BYTES = 64;
const MAX_HEADERS = (HEAD_BYTES - HEADER_BYTES) / SEGMENT_HEADER_SIZE;
/** Room for the executable's own program headers. */
const COPY_BYTES = 4096;
/** A longer path counts as missing. */
const PATH_BYTES = 2048, NAME_BYTES = 64;

/** Where things are on the stack, in bytes. */
const Frame = {
  kept: 0,
  /** All bits but the offset in a page. */
  pageMask: 8,
  pageSize: 16,
  /** Where the values are in the auxiliary vector. */
  headersValue: 24,
  ownCountValue: 32,
  baseValue: 40,
  entryValue: 48,
  /** The dynamic linker: its descriptor, its address, and its number of headers. */
  fd: 56,
  base: 64,
  count: 72,
  /** Where its memory ends, from its address. */
  span: 80,
  /** Of a segment: its header, its address, and what may be done with it. */
  header: 88,
  address: 96,
  protection: 104,
  head: 112,
  path: 112 + HEAD_BYTES,
  size: 112 + HEAD_BYTES + PATH_BYTES + NAME_BYTES,
} as const;

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

/** Labels of the stub. */
const START = "start", FAILED = "failed", RPATH = "rpath";

/** Facts about the stub's executable. */
interface LinkerStubFacts {
  /** How many bytes its first instruction is behind where the executable used to start. */
  readonly distance: number;
  /** The dynamic linker that the executable names. */
  readonly linker: string;
  /** How many bytes it is behind the dynamic tag that can name the libraries' path. */
  readonly toTag: number;
  /** How many bytes it is behind the texts of dynamic tags. */
  readonly toTexts: number;
}

/** Writes the stub: its code, and its texts behind it. */
function writeLinkerStub(
  w: Writer,
  texts: Pick<Assembler, "text">,
  facts: LinkerStubFacts,
): void {
  const { p } = w;
  const { distance, linker } = facts;
  const failure = formatFailure(linker);
  p.label(START);
  p.enter(Frame.size, Frame.kept);
  findAuxiliaryVector(w);
  open(w, facts);
  readHead(w);
  reserve(w);
  mapSegments(w);
  using r = w.step("start the dynamic linker", { fd: "a" });
  p.load(r.fd, "frame", Frame.fd);
  p.systemCall("close", r.fd);
  showHeaders(w);
  using start = w.step("set entry and base", { address: "b", number: "c" });
  p.labelAddress(start.address, START);
  p.number(start.number, distance);
  p.subtract(start.address, start.number);
  setValue(w, Frame.entryValue, start.address);
  p.load(start.address, "frame", Frame.base);
  setValue(w, Frame.baseValue, start.address);
  p.load(start.number, "frame", Frame.head + HeaderField.entry);
  p.add(start.address, start.number);
  p.leaveTo(Frame.size, Frame.kept, start.address);

  p.label(FAILED);
  const text = { label: w.text(failure) };
  p.systemCall("write", STDOUT, text, failure.length);
  p.systemCall("exit_group", 1);
  for (const [value, label] of w.texts) texts.text(label, value);
  texts.text(RPATH, `$ORIGIN/${LIBRARY_DIRECTORY}`);
}

/** Lists what is in the stub. It knows nothing of an executable yet. */
export function listLinkerStub(machine: Machine, origin: number): Operation[] {
  const facts = { linker: LINKERS[machine], distance: 0, toTag: 0, toTexts: 0 };
  return listOperations(
    machine,
    origin,
    (w, code) => writeLinkerStub(w, code, facts),
    Frame,
  );
}

/** Sets a value of the auxiliary vector; changes a. */
function setValue(w: Writer, slot: number, value: Kept): void {
  using r = w.step("set a value", { at: "a" });
  w.p.load(r.at, "frame", slot);
  w.p.store(value, r.at, 0);
}

/** Finds where the auxiliary vector has what the dynamic linker reads. */
function findAuxiliaryVector(w: Writer): void {
  const { p } = w;
  using r = w.step("find the auxiliary vector", { at: "a", type: "b" });
  p.frameAddress(r.at, 0);
  p.addNumber(r.at, Frame.size + WORD_BYTES); // behind argc
  for (const list of ["arguments", "variables"]) {
    p.label(list);
    p.load(r.type, r.at, 0);
    p.addNumber(r.at, WORD_BYTES);
    p.jumpIf(r.type, "!=", 0, list);
  }
  p.label("auxiliary");
  p.load(r.type, r.at, 0);
  p.addNumber(r.at, WORD_BYTES);
  const slots = [
    [Auxiliary.headers, Frame.headersValue],
    [Auxiliary.ownCount, Frame.ownCountValue],
    [Auxiliary.pageSize, Frame.pageSize],
    [Auxiliary.base, Frame.baseValue],
    [Auxiliary.entry, Frame.entryValue],
  ] as const;
  for (const [type, slot] of slots) {
    const other = w.newLabel("other");
    p.jumpIf(r.type, "!=", type, other);
    p.store(r.at, "frame", slot);
    p.label(other);
  }
  p.addNumber(r.at, WORD_BYTES);
  p.jumpIf(r.type, "!=", 0, "auxiliary");
  using page = w.step("keep the page's size", { size: "a", mask: "b" });
  p.load(page.size, "frame", Frame.pageSize);
  p.load(page.size, page.size, 0);
  p.store(page.size, "frame", Frame.pageSize);
  p.number(page.mask, 0);
  p.subtract(page.mask, page.size);
  p.store(page.mask, "frame", Frame.pageMask);
}

/** Opens the dynamic linker beside the executable, or else the other one. */
function open(w: Writer, facts: LinkerStubFacts): void {
  const { p } = w;
  using r = w.step("open the dynamic linker", {
    ...{ end: "a", character: "b", from: "c" },
  });
  const { linker } = facts;
  const self = { label: w.text("/proc/self/exe") };
  p.systemCall("readlinkat", 0, self, { frame: Frame.path }, PATH_BYTES);
  p.jumpIfNegative("result", "other linker");
  p.jumpIf("result", "==", PATH_BYTES, "other linker"); // cut off
  p.frameAddress(r.end, Frame.path);
  p.add(r.end, "result");
  p.label("last part"); // it is absolute, so there is one
  p.addNumber(r.end, -1);
  p.loadByte(r.character, r.end);
  p.jumpIf(r.character, "!=", codeOf("/"), "last part");
  const name = linker.slice(linker.lastIndexOf("/"));
  p.labelAddress(r.from, w.text(`/${LIBRARY_DIRECTORY}${name}`));
  p.label("copy name");
  p.loadByte(r.character, r.from);
  p.storeByte(r.character, r.end);
  p.addNumber(r.end, 1);
  p.addNumber(r.from, 1);
  p.jumpIf(r.character, "!=", 0, "copy name");
  p.systemCall("openat", 0, { frame: Frame.path }, O_CLOEXEC);
  p.jumpIfNegative("result", "other linker");
  p.store("result", "frame", Frame.fd);
  setRpath(w, facts);
  p.jump("opened");
  p.label("other linker");
  p.systemCall("openat", 0, { label: w.text(linker) }, O_CLOEXEC);
  p.jumpIfNegative("result", FAILED);
  p.store("result", "frame", Frame.fd);
  p.label("opened");
}

/** Has the dynamic linker look for libraries beside the executable, in place of a flag that another tag has, too. */
function setRpath(w: Writer, { toTag, toTexts }: LinkerStubFacts): void {
  const { p } = w;
  using r = w.step("name the libraries", { tag: "a", start: "b", value: "c" });
  const { tag, start, value } = r;
  p.labelAddress(start, START);
  p.move(tag, start);
  p.number(value, toTag);
  p.subtract(tag, value);
  p.number(value, DT_RPATH);
  p.store(value, tag, 0);
  p.labelAddress(value, RPATH);
  p.subtract(value, start);
  p.number(start, toTexts);
  p.add(value, start);
  p.store(value, tag, WORD_BYTES);
}

/** Reads the headers of the dynamic linker. */
function readHead(w: Writer): void {
  const { p } = w;
  using r = w.step("read the headers", { fd: "a", count: "b" });
  p.load(r.fd, "frame", Frame.fd);
  p.systemCall("read", r.fd, { frame: Frame.head }, HEAD_BYTES);
  p.jumpIf("result", "!=", HEAD_BYTES, FAILED);
  using head = w.step("check them", { at: "a" });
  p.load(head.at, "frame", Frame.head + HeaderField.programHeadersOffset);
  p.jumpIf(head.at, "!=", HEADER_BYTES, FAILED);
  p.frameAddress(head.at, Frame.head + HeaderField.programHeaderCount);
  p.loadByte(r.count, head.at);
  p.jumpIf(r.count, ">=", Math.floor(MAX_HEADERS) + 1, FAILED);
  p.store(r.count, "frame", Frame.count);
}

/** A program header, how many there are from it on, and its type. */
const HEADERS = { header: "a", left: "b", type: "c" } as const;

/** Goes over the program headers. The body may jump to the next one. */
function forEachHeader(
  w: Writer,
  what: string,
  body: (next: string) => void,
): void {
  const { p } = w;
  using r = w.step(`each ${what}`, HEADERS);
  const [next, again, end] = [`next ${what}`, `each ${what}`, `last ${what}`];
  p.label(again);
  p.jumpIf(r.left, "==", 0, end);
  {
    using word = w.step("read its type", { lower: "d" });
    p.load(r.type, r.header, SegmentField.type); // and p_flags in the upper half
    p.number(word.lower, 0xffff_ffff);
    p.and(r.type, word.lower);
  }
  body(next);
  p.label(next);
  p.addNumber(r.header, SEGMENT_HEADER_SIZE);
  p.addNumber(r.left, -1);
  p.jump(again);
  p.label(end);
}

/** Begins with those of the dynamic linker. */
function loadHeaders(w: Writer): void {
  w.p.frameAddress(HEADERS.header, Frame.head + HEADER_BYTES);
  w.p.load(HEADERS.left, "frame", Frame.count);
}

/** Maps memory for the dynamic linker, and for headers behind it. */
function reserve(w: Writer): void {
  const { p } = w;
  using r = w.step("reserve memory", { ...HEADERS, part: "d", size: "e" });
  loadHeaders(w);
  p.number(r.size, 0);
  forEachHeader(w, "extent", (next) => {
    p.jumpIf(r.type, "!=", PT_LOAD, next);
    p.load(r.size, r.header, SegmentField.address); // in order of address
    p.load(r.part, r.header, SegmentField.memorySize);
    p.add(r.size, r.part);
  });
  p.load(r.part, "frame", Frame.pageSize);
  p.add(r.size, r.part);
  p.addNumber(r.size, -1);
  p.load(r.part, "frame", Frame.pageMask);
  p.and(r.size, r.part);
  p.store(r.size, "frame", Frame.span);
  p.number(r.part, COPY_BYTES);
  p.add(r.size, r.part);
  p.systemCall(
    "mmap",
    0,
    r.size,
    PROT_READ | PROT_WRITE,
    MAP_PRIVATE | MAP_ANONYMOUS,
    NO_FD,
    0,
  );
  p.jumpIfNegative("result", FAILED);
  p.store("result", "frame", Frame.base);
}

/** Maps the segments of the dynamic linker. */
function mapSegments(w: Writer): void {
  const { p } = w;
  using r = w.step("map segments", HEADERS);
  loadHeaders(w);
  forEachHeader(w, "segment", (next) => {
    p.jumpIf(r.type, "!=", PT_LOAD, next);
    readProtection(w);
    using m = w.step("map one", {
      start: "c",
      size: "d",
      offset: "e",
      fd: "f",
    });
    p.load(m.start, r.header, SegmentField.address);
    p.load(m.size, "frame", Frame.base);
    p.add(m.start, m.size);
    p.store(m.start, "frame", Frame.address);
    p.load(m.size, "frame", Frame.pageMask);
    p.and(m.start, m.size);
    // What is mapped: from the page's start to the end of what is in the file
    p.load(m.size, "frame", Frame.address);
    p.subtract(m.size, m.start);
    p.load(m.offset, r.header, SegmentField.fileSize);
    p.add(m.size, m.offset);
    p.load(m.offset, r.header, SegmentField.fileOffset);
    p.load(m.fd, "frame", Frame.pageMask);
    p.and(m.offset, m.fd);
    p.store(r.header, "frame", Frame.header);
    {
      using call = w.step("mmap", { protection: "a" });
      p.load(call.protection, "frame", Frame.protection);
      p.load(m.fd, "frame", Frame.fd);
      p.systemCall(
        "mmap",
        m.start,
        m.size,
        call.protection,
        MAP_PRIVATE | MAP_FIXED,
        m.fd,
        m.offset,
      );
    }
    p.load(r.header, "frame", Frame.header);
    p.jumpIfNegative("result", FAILED);
    clearRest(w, next);
  });
}

/** Turns `p_flags` of a header into what mmap(2) takes; changes c, d, e and f. */
function readProtection(w: Writer): void {
  const { p } = w;
  using r = w.step("read the protection", {
    header: "a",
    at: "c",
    flags: "d",
    protection: "e",
    flag: "f",
  });
  p.move(r.at, r.header);
  p.addNumber(r.at, SegmentField.flags);
  p.loadByte(r.flags, r.at);
  p.number(r.protection, 0);
  for (const [flag, protection] of PROTECTIONS) {
    const without = w.newLabel("without");
    p.number(r.flag, flag);
    p.and(r.flag, r.flags);
    p.jumpIf(r.flag, "==", 0, without);
    p.addNumber(r.protection, protection);
    p.label(without);
  }
  p.store(r.protection, "frame", Frame.protection);
}

/** Fills the last page behind what is in the file with zeros. Pages behind it are new. */
function clearRest(w: Writer, next: string): void {
  const { p } = w;
  using r = w.step("clear the rest", {
    header: "a",
    at: "c",
    end: "d",
    other: "e",
  });
  p.load(r.at, r.header, SegmentField.fileSize);
  p.load(r.end, r.header, SegmentField.memorySize);
  p.jumpIf(r.at, "==", r.end, next);
  p.load(r.end, "frame", Frame.address);
  p.add(r.at, r.end);
  p.move(r.end, r.at);
  p.load(r.other, "frame", Frame.pageSize);
  p.add(r.end, r.other);
  p.addNumber(r.end, -1);
  p.load(r.other, "frame", Frame.pageMask);
  p.and(r.end, r.other);
  p.number(r.other, 0);
  const again = w.newLabel("clear");
  p.label(again);
  p.jumpIf(r.at, "==", r.end, next);
  p.storeByte(r.other, r.at);
  p.addNumber(r.at, 1);
  p.jump(again);
}

/**
 * Has the dynamic linker read a copy of the program headers, with PT_INTERP for
 * PT_NULL, and PT_PHDR as far from its place as the copy is.
 */
function showHeaders(w: Writer): void {
  const { p } = w;
  using r = w.step("show the headers", {
    value: "a",
    from: "b",
    to: "c",
    word: "d",
    left: "e",
    distance: "f",
  });
  p.load(r.value, "frame", Frame.headersValue);
  p.load(r.from, r.value, 0);
  p.load(r.to, "frame", Frame.base);
  p.load(r.word, "frame", Frame.span);
  p.add(r.to, r.word);
  p.store(r.to, r.value, 0);
  p.move(r.distance, r.to);
  p.subtract(r.distance, r.from);
  p.load(r.left, "frame", Frame.ownCountValue);
  p.load(r.left, r.left, 0);
  p.label("copy header");
  for (let at = 0; at < SEGMENT_HEADER_SIZE; at += WORD_BYTES) {
    p.load(r.word, r.from, at);
    p.store(r.word, r.to, at);
  }
  p.addNumber(r.from, SEGMENT_HEADER_SIZE);
  p.addNumber(r.to, SEGMENT_HEADER_SIZE);
  p.addNumber(r.left, -1);
  p.jumpIf(r.left, "!=", 0, "copy header");

  using own = w.step("change the copy", HEADERS);
  p.load(own.header, r.value, 0);
  p.load(own.left, "frame", Frame.ownCountValue);
  p.load(own.left, own.left, 0);
  forEachHeader(w, "own", (next) => {
    p.jumpIf(own.type, "!=", PT_NULL, "is shown");
    p.load(r.word, own.header, SegmentField.type);
    p.addNumber(r.word, PT_INTERP);
    p.store(r.word, own.header, SegmentField.type);
    p.label("is shown");
    p.jumpIf(own.type, "!=", PT_PHDR, next);
    p.load(r.word, own.header, SegmentField.address);
    p.add(r.word, r.distance);
    p.store(r.word, own.header, SegmentField.address);
  });
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
  const result = addCode(elf, (origin) => {
    const processor = createProcessor(elf.machine, origin);
    writeLinkerStub(new Writer(processor), processor.code, {
      distance: origin - elf.entry,
      linker,
      toTag: origin - tagAddress,
      toTexts: origin - textsAddress,
    });
    return processor.code.assemble();
  });
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
    tagAddress: toWritableAddress(elf, flags.valueOffset - WORD_BYTES),
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
