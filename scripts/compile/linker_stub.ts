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
  /** All bits but those of an offset in a page. */
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

/** What the stub knows of its executable. */
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
  p.load("a", "frame", Frame.fd);
  p.systemCall("close", "a");
  showHeaders(w);
  p.labelAddress("b", START);
  p.number("c", distance);
  p.subtract("b", "c");
  setValue(w, Frame.entryValue, "b");
  p.load("b", "frame", Frame.base);
  setValue(w, Frame.baseValue, "b");
  p.load("c", "frame", Frame.head + HeaderField.entry);
  p.add("b", "c");
  p.leaveTo(Frame.size, Frame.kept, "b");

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
  w.p.load("a", "frame", slot);
  w.p.store(value, "a", 0);
}

/** Finds where the auxiliary vector has what the dynamic linker reads. */
function findAuxiliaryVector(w: Writer): void {
  const { p } = w;
  using _ = w.step("find the auxiliary vector", {});
  p.frameAddress("a", 0);
  p.addNumber("a", Frame.size + WORD_BYTES); // behind argc
  for (const list of ["arguments", "variables"]) {
    p.label(list);
    p.load("b", "a", 0);
    p.addNumber("a", WORD_BYTES);
    p.jumpIf("b", "!=", 0, list);
  }
  p.label("auxiliary");
  p.load("b", "a", 0);
  p.addNumber("a", WORD_BYTES);
  const slots = [
    [Auxiliary.headers, Frame.headersValue],
    [Auxiliary.ownCount, Frame.ownCountValue],
    [Auxiliary.pageSize, Frame.pageSize],
    [Auxiliary.base, Frame.baseValue],
    [Auxiliary.entry, Frame.entryValue],
  ] as const;
  for (const [type, slot] of slots) {
    const other = w.newLabel("other");
    p.jumpIf("b", "!=", type, other);
    p.store("a", "frame", slot);
    p.label(other);
  }
  p.addNumber("a", WORD_BYTES);
  p.jumpIf("b", "!=", 0, "auxiliary");
  p.load("a", "frame", Frame.pageSize);
  p.load("a", "a", 0);
  p.store("a", "frame", Frame.pageSize);
  p.number("b", 0);
  p.subtract("b", "a");
  p.store("b", "frame", Frame.pageMask);
}

/** Opens the dynamic linker beside the executable, or else the other one. */
function open(w: Writer, facts: LinkerStubFacts): void {
  const { p } = w;
  using _ = w.step("open the dynamic linker", {});
  const { linker } = facts;
  const self = { label: w.text("/proc/self/exe") };
  p.systemCall("readlinkat", 0, self, { frame: Frame.path }, PATH_BYTES);
  p.jumpIfNegative("result", "other linker");
  p.jumpIf("result", "==", PATH_BYTES, "other linker"); // cut off
  p.frameAddress("a", Frame.path);
  p.add("a", "result");
  p.label("last part"); // it is absolute, so there is one
  p.addNumber("a", -1);
  p.loadByte("b", "a");
  p.jumpIf("b", "!=", codeOf("/"), "last part");
  const name = linker.slice(linker.lastIndexOf("/"));
  p.labelAddress("c", w.text(`/${LIBRARY_DIRECTORY}${name}`));
  p.label("copy name");
  p.loadByte("b", "c");
  p.storeByte("b", "a");
  p.addNumber("a", 1);
  p.addNumber("c", 1);
  p.jumpIf("b", "!=", 0, "copy name");
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
  using _ = w.step("name the libraries", {});
  const [tag, start, value] = ["a", "b", "c"] as const;
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
  using _ = w.step("read the headers", {});
  p.load("a", "frame", Frame.fd);
  p.systemCall("read", "a", { frame: Frame.head }, HEAD_BYTES);
  p.jumpIf("result", "!=", HEAD_BYTES, FAILED);
  p.load("a", "frame", Frame.head + HeaderField.programHeadersOffset);
  p.jumpIf("a", "!=", HEADER_BYTES, FAILED);
  p.frameAddress("a", Frame.head + HeaderField.programHeaderCount);
  p.loadByte("b", "a");
  p.jumpIf("b", ">=", Math.floor(MAX_HEADERS) + 1, FAILED);
  p.store("b", "frame", Frame.count);
}

/** Goes over the program headers from a to b; a type is in c, its place in a. */
function forEachHeader(
  w: Writer,
  what: string,
  body: (next: string) => void,
): void {
  const { p } = w;
  const [next, again, end] = [`next ${what}`, `each ${what}`, `last ${what}`];
  p.label(again);
  p.jumpIf("b", "==", 0, end);
  p.load("c", "a", SegmentField.type); // and p_flags in the upper half
  p.number("d", 0xffff_ffff);
  p.and("c", "d");
  body(next);
  p.label(next);
  p.addNumber("a", SEGMENT_HEADER_SIZE);
  p.addNumber("b", -1);
  p.jump(again);
  p.label(end);
}

/** a = first program header of the dynamic linker, b = their number */
function loadHeaders(w: Writer): void {
  w.p.frameAddress("a", Frame.head + HEADER_BYTES);
  w.p.load("b", "frame", Frame.count);
}

/** Maps memory for the dynamic linker, and for headers behind it. */
function reserve(w: Writer): void {
  const { p } = w;
  using _ = w.step("reserve memory", {});
  loadHeaders(w);
  p.number("e", 0);
  forEachHeader(w, "extent", (next) => {
    p.jumpIf("c", "!=", PT_LOAD, next);
    p.load("e", "a", SegmentField.address); // in order of address
    p.load("d", "a", SegmentField.memorySize);
    p.add("e", "d");
  });
  p.load("d", "frame", Frame.pageSize);
  p.add("e", "d");
  p.addNumber("e", -1);
  p.load("d", "frame", Frame.pageMask);
  p.and("e", "d");
  p.store("e", "frame", Frame.span);
  p.number("d", COPY_BYTES);
  p.add("e", "d");
  p.systemCall(
    "mmap",
    0,
    "e",
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
  using _ = w.step("map segments", {});
  loadHeaders(w);
  forEachHeader(w, "segment", (next) => {
    p.jumpIf("c", "!=", PT_LOAD, next);
    readProtection(w);
    p.load("c", "a", SegmentField.address);
    p.load("d", "frame", Frame.base);
    p.add("c", "d");
    p.store("c", "frame", Frame.address);
    p.load("d", "frame", Frame.pageMask);
    p.and("c", "d");
    // What is mapped: from the page's start to the end of what is in the file
    p.load("d", "frame", Frame.address);
    p.subtract("d", "c");
    p.load("e", "a", SegmentField.fileSize);
    p.add("d", "e");
    p.load("e", "a", SegmentField.fileOffset);
    p.load("f", "frame", Frame.pageMask);
    p.and("e", "f");
    p.store("a", "frame", Frame.header);
    p.load("a", "frame", Frame.protection);
    p.load("f", "frame", Frame.fd);
    p.systemCall("mmap", "c", "d", "a", MAP_PRIVATE | MAP_FIXED, "f", "e");
    p.load("a", "frame", Frame.header);
    p.jumpIfNegative("result", FAILED);
    clearRest(w, next);
  });
}

/** Turns `p_flags` of the header at a into what mmap(2) takes; changes c, d, e and f. */
function readProtection(w: Writer): void {
  const { p } = w;
  using _ = w.step("read the protection", {});
  p.move("c", "a");
  p.addNumber("c", SegmentField.flags);
  p.loadByte("d", "c");
  p.number("e", 0);
  for (const [flag, protection] of PROTECTIONS) {
    const without = w.newLabel("without");
    p.number("f", flag);
    p.and("f", "d");
    p.jumpIf("f", "==", 0, without);
    p.addNumber("e", protection);
    p.label(without);
  }
  p.store("e", "frame", Frame.protection);
}

/** Fills the last page behind what is in the file with zeros. Pages behind it are new. */
function clearRest(w: Writer, next: string): void {
  const { p } = w;
  using _ = w.step("clear the rest", {});
  p.load("c", "a", SegmentField.fileSize);
  p.load("d", "a", SegmentField.memorySize);
  p.jumpIf("c", "==", "d", next);
  p.load("d", "frame", Frame.address);
  p.add("c", "d");
  p.move("d", "c");
  p.load("e", "frame", Frame.pageSize);
  p.add("d", "e");
  p.addNumber("d", -1);
  p.load("e", "frame", Frame.pageMask);
  p.and("d", "e");
  p.number("e", 0);
  const again = w.newLabel("clear");
  p.label(again); // c = where, d = end of the page
  p.jumpIf("c", "==", "d", next);
  p.storeByte("e", "c");
  p.addNumber("c", 1);
  p.jump(again);
}

/**
 * Has the dynamic linker read a copy of the program headers, with PT_INTERP for
 * PT_NULL, and PT_PHDR as far from its place as the copy is.
 */
function showHeaders(w: Writer): void {
  const { p } = w;
  using _ = w.step("show the headers", {});
  p.load("a", "frame", Frame.headersValue);
  p.load("b", "a", 0);
  p.load("c", "frame", Frame.base);
  p.load("d", "frame", Frame.span);
  p.add("c", "d"); // c = the copy
  p.store("c", "a", 0);
  p.move("f", "c");
  p.subtract("f", "b"); // f = how far it is from the original
  p.load("e", "frame", Frame.ownCountValue);
  p.load("e", "e", 0);
  p.label("copy header");
  for (let at = 0; at < SEGMENT_HEADER_SIZE; at += WORD_BYTES) {
    p.load("d", "b", at);
    p.store("d", "c", at);
  }
  p.addNumber("b", SEGMENT_HEADER_SIZE);
  p.addNumber("c", SEGMENT_HEADER_SIZE);
  p.addNumber("e", -1);
  p.jumpIf("e", "!=", 0, "copy header");

  p.load("a", "a", 0);
  p.load("b", "frame", Frame.ownCountValue);
  p.load("b", "b", 0);
  forEachHeader(w, "own", (next) => {
    p.jumpIf("c", "!=", PT_NULL, "is shown");
    p.load("d", "a", SegmentField.type);
    p.addNumber("d", PT_INTERP);
    p.store("d", "a", SegmentField.type);
    p.label("is shown");
    p.jumpIf("c", "!=", PT_PHDR, next);
    p.load("d", "a", SegmentField.address);
    p.add("d", "f");
    p.store("d", "a", SegmentField.address);
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
