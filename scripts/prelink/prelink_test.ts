import { assert, assertEquals, assertThrows } from "@std/assert";
import { makeDenort } from "../mkdenort/mod.ts";
import {
  DT_RELA,
  type Elf,
  getTag,
  parseElf,
  readDynamic,
  readU64,
  RELOCATION_SIZE,
  toFileOffset,
  viewOf,
  writeU64,
} from "../mkdenort/elf.ts";
import { makeSampleElf } from "../mkdenort/testing/sample_elf.ts";
import { fetchDeno } from "../compile/runtime.ts";
import { prelink } from "./prelink.ts";
import { getOwnTarget, type Target, TARGETS } from "../compile/target.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const BASE = 0x2_0000_0000;
const DT_RELACOUNT = 0x6ffffff9, DT_FLAGS_1 = 0x6ffffffb;

function readTags(elf: Elf): Map<number, number> {
  return new Map(readDynamic(elf).map(({ tag, value }) => [tag, value]));
}

/** Finds a deno for a target; undefined if the registry has to be asked in vain. */
async function findDeno(target: Target): Promise<string | undefined> {
  if (target === getOwnTarget()) return Deno.execPath();
  const limit = AbortSignal.timeout(60_000);
  return await fetchDeno(target, limit).then(
    ({ path }) => path,
    () => undefined,
  );
}

for (const target of TARGETS) {
  const path = await findDeno(target);
  Deno.test({
    name: `prelink() applies what is relative in deno for ${target}` +
      (path === undefined ? " (skipped: needs the npm registry)" : ""),
    ignore: path === undefined,
    fn: async (t) => {
      const original = makeDenort(await Deno.readFile(path ?? ""), []);
      const before = parseElf(original);
      const bytes = prelink(original);
      const after = viewOf(bytes), view = viewOf(original);
      const tags = readTags(before);
      const count = getTag(tags, DT_RELACOUNT);
      await t.step("every address", () => {
        const start = toFileOffset(before, getTag(tags, DT_RELA));
        const end = start + count * RELOCATION_SIZE;
        let wrong = 0;
        for (let at = start; at < end; at += RELOCATION_SIZE) {
          const place = toFileOffset(before, readU64(view, at));
          const address = BASE + readU64(view, at + 16);
          if (readU64(after, place) !== address) wrong++;
        }
        assert(count > 100_000);
        assertEquals(wrong, 0);
      });
      await t.step("and moves every segment", () => {
        for (const { type, address, headerOffset } of before.segments) {
          const isStack = type === 0x6474e551;
          assertEquals(
            readU64(after, headerOffset + 16),
            isStack ? address : address + BASE,
          );
        }
        assertEquals(readU64(after, 24), before.entry + BASE);
        assertEquals(after.getUint16(16, true), 2);
      });
      await t.step("and leaves the imports to the dynamic loader", () => {
        const elf = { ...before, bytes };
        const changed = readTags(elf);
        assertEquals(getTag(changed, DT_RELACOUNT), 0);
        const table = BASE + getTag(tags, DT_RELA) + count * RELOCATION_SIZE;
        assertEquals(getTag(changed, DT_RELA), table);
        assertEquals(getTag(changed, DT_FLAGS_1), 1);
      });
    },
  });
}

Deno.test("prelink() gives deno an address at which it runs", async () => {
  const path = await Deno.makeTempFile();
  try {
    const deno = await Deno.readFile(Deno.execPath());
    await Deno.writeFile(path, prelink(deno), { mode: 0o755 });
    const script = "console.log(Deno.readTextFileSync('/proc/self/maps'))";
    const { stdout } = await new Deno.Command(path, {
      args: ["eval", script],
    }).output();
    const maps = new TextDecoder().decode(stdout);
    // V8 may have reserved addresses below.
    const first = maps.split("\n").find((line) => line.endsWith(path));
    assert(first?.startsWith("200000000-"), first);
  } finally {
    await Deno.remove(path);
  }
});

/** Makes a sample for which nothing is to be done, and changes one number of 64 bits. */
function makeSample(at = 0x2f0, number = 0): Uint8Array<ArrayBuffer> {
  const bytes = makeSampleElf();
  const view = viewOf(bytes);
  // Behind the four entries that the sample has: no relative relocations, and
  // symbols without a hash table's bucket.
  const entries = [
    ...[DT_RELA, 0x500, 8, 0, DT_RELACOUNT, 0],
    ...[DT_FLAGS_1, 0x0800_0001, 0x6ffffef5, 0x5c0],
  ];
  entries.forEach((entry, index) =>
    writeU64(view, 0x200 + 64 + 8 * index, entry)
  );
  writeU64(view, at, number);
  return bytes;
}

Deno.test("prelink() refuses what it does not understand", async (t) => {
  const sample = makeSample();
  prelink(sample);
  assertEquals(sample, makeSample(), "the original stays");
  const rows: [name: string, bytes: Uint8Array, message: string][] = [
    ["text", new TextEncoder().encode("#!/bin/sh\n".repeat(10)), "ELF magic"],
    [
      "an executable with an address",
      prelink(makeSample()),
      "expected ELF type 0x3, found 0x2",
    ],
    [
      "a static executable",
      makeSampleElf({ segmentTypes: [1, 4] }),
      "expected a PT_DYNAMIC segment",
    ],
    ["imports that are resolved late", makeSample(0x278, 0), "DF_1_NOW"],
    ["another table of relocations", makeSample(0x290, 36), "tag 0x24"],
    ["another type of relocation", makeSample(0x508, 9), "relocation type 9"],
    [
      "no count of relative relocations",
      makeSample(0x260, 21),
      "tag 1879048185",
    ],
    ["another type among the relative ones", makeSample(0x268, 1), "type 7"],
  ];
  await eachRow(t, rows, ([, bytes, message]) => {
    assertThrows(() => prelink(bytes), Error, message);
  });
});
