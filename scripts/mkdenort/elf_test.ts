import { assertEquals, assertThrows } from "@std/assert";
import { addSegment, getImportSlot, parseElf, planSegment } from "./elf.ts";
import {
  makeSampleElf,
  SAMPLE_ENTRY,
  SAMPLE_SIZE,
  SAMPLE_SLOTS,
} from "./testing/sample_elf.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

testRows(
  "parseElf() reads what is needed of both machines",
  [
    { id: 62, machine: "x86_64", pageSize: 0x1000 },
    { id: 183, machine: "aarch64", pageSize: 0x10000 },
  ] as const,
  ({ id, machine, pageSize }) => {
    const elf = parseElf(makeSampleElf({ machine: id }));
    assertEquals(elf.machine, machine);
    assertEquals(elf.pageSize, pageSize);
    assertEquals(elf.entry, SAMPLE_ENTRY);
    assertEquals(elf.segments.map(({ type }) => type), [1, 2, 4]);
    assertEquals(getImportSlot(elf, "setenv"), SAMPLE_SLOTS + 16);
  },
  ({ machine }) => machine,
);

Deno.test("parseElf() reads a part of a larger buffer", () => {
  const padded = new Uint8Array([...new Uint8Array(5), ...makeSampleElf()]);
  assertEquals(parseElf(padded.subarray(5)).entry, SAMPLE_ENTRY);
});

/** Changes to the bytes of a sample, and what `parseElf` then says. */
const damages: [name: string, at: number, byte: number, message: string][] = [
  ["magic", 1, 0x46, "expected ELF magic 0x7f454c46, found 0x7f464c46"],
  ["class", 4, 1, "expected ELF class 0x2, found 0x1"],
  ["data encoding", 5, 2, "expected ELF data encoding 0x1, found 0x2"],
  ["type", 16, 2, "expected ELF type 0x3, found 0x2"],
  ["machine", 18, 243, "expected machine 62 or 183, found 243"],
  ["header size", 54, 32, "expected ELF program header size 0x38, found 0x20"],
  ["header count", 57, 1, "bytes up to the end of the program headers"],
];

Deno.test("parseElf() says what it expected and what it found", async (t) => {
  await eachRow(t, damages, ([, at, byte, message]) => {
    const bytes = makeSampleElf();
    bytes[at] = byte;
    assertThrows(() => parseElf(bytes), Error, message);
  });
  await t.step("cut off", () => {
    assertThrows(
      () => parseElf(makeSampleElf().subarray(0, 20)),
      Error,
      "expected 64 bytes up to the end of the ELF header, found 20",
    );
  });
});

Deno.test("getImportSlot() says what is missing", () => {
  const missing = parseElf(makeSampleElf({ imports: ["getcwd"] }));
  assertThrows(
    () => getImportSlot(missing, "setenv"),
    Error,
    'expected an import of "setenv", found none',
  );
  const isStatic = parseElf(makeSampleElf({ segmentTypes: [1, 4] }));
  assertThrows(
    () => getImportSlot(isStatic, "setenv"),
    Error,
    "expected a PT_DYNAMIC segment, found none",
  );
});

Deno.test("planSegment() wants the notes behind the loaded segments", () => {
  assertThrows(
    () => planSegment(parseElf(makeSampleElf({ segmentTypes: [1, 2] }))),
    Error,
    "expected a PT_NOTE segment, found none",
  );
  assertThrows(
    () => planSegment(parseElf(makeSampleElf({ segmentTypes: [1, 4, 2, 1] }))),
    Error,
    "expected PT_NOTE after every PT_LOAD, found PT_NOTE at 1 and PT_LOAD at 3",
  );
});

Deno.test("addSegment() turns the notes into a loaded segment behind the rest", () => {
  const before = makeSampleElf();
  const elf = parseElf(before);
  const place = planSegment(elf);
  assertEquals(place.fileOffset, 0x1000);
  assertEquals(place.address, 0x1000);
  const after = addSegment(elf, place, Uint8Array.of(1, 2, 3), 0x1001);

  const changed = parseElf(after);
  assertEquals(changed.entry, 0x1001);
  assertEquals(changed.segments[2], {
    headerOffset: place.headerOffset,
    type: 1,
    fileOffset: 0x1000,
    address: 0x1000,
    fileSize: 3,
    memorySize: 3,
  });
  assertEquals([...after.subarray(0x1000)], [1, 2, 3]);
  assertEquals(before, makeSampleElf(), "the original is left alone");
  assertEquals(getImportSlot(changed, "chdir"), getImportSlot(elf, "chdir"));
  assertEquals(after.length, Math.ceil(SAMPLE_SIZE / 0x1000) * 0x1000 + 3);
});
