/**
 * Makes executables of a few hundred bytes for the tests of `elf.ts`: enough to
 * be read, not to be run.
 *
 * @module
 */

/** The content of a sample; by default as in a real `deno`. */
export interface SampleOptions {
  /** `e_machine`: 62 is x86-64, 183 is arm64. */
  readonly machine?: number;
  /** Types of the program headers, in order: 1 PT_LOAD, 2 PT_DYNAMIC, 4 PT_NOTE. */
  readonly segmentTypes?: readonly number[];
  /** Imported functions; their slots are at 0x2000, 0x2008 and so on. */
  readonly imports?: readonly string[];
}

/** Where the first instruction of a sample would be. */
export const SAMPLE_ENTRY = 0x1234;
/** Size of a sample in the file and in memory: everything lies at its own offset. */
export const SAMPLE_SIZE = 0x600;
/** The slot of the first imported function. */
export const SAMPLE_SLOTS = 0x2000;

const PROGRAM_HEADERS = 0x40;
const DYNAMIC = 0x200;
const SYMBOLS = 0x300;
const STRINGS = 0x400;
const RELOCATIONS = 0x500;

/** Creates an executable that `parseElf` accepts, unless the options make it wrong. */
export function makeSampleElf(
  {
    machine = 62,
    segmentTypes = [1, 2, 4],
    imports = ["getcwd", "chdir", "setenv"],
  }: SampleOptions = {},
): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(SAMPLE_SIZE));
  const setNumbers = (at: number, numbers: number[]): void =>
    numbers.forEach((number, index) =>
      view.setBigUint64(at + 8 * index, BigInt(number), true)
    );
  view.setUint32(0, 0x7f454c46);
  view.setUint16(4, 0x0201); // ELFCLASS64, ELFDATA2LSB
  view.setUint16(16, 3, true); // ET_DYN
  view.setUint16(18, machine, true);
  setNumbers(24, [SAMPLE_ENTRY, PROGRAM_HEADERS]);
  view.setUint16(54, 56, true);
  view.setUint16(56, segmentTypes.length, true);
  segmentTypes.forEach((type, index) => {
    const at = PROGRAM_HEADERS + 56 * index;
    const start = type === 2 ? DYNAMIC : 0;
    const size = type === 2 ? SYMBOLS - DYNAMIC : SAMPLE_SIZE;
    view.setUint32(at, type, true);
    setNumbers(at + 8, [start, start, start, size, size, 0x1000]);
  });
  const isArm = machine === 183;
  writeImports(view, imports, isArm ? 1026 : 7, setNumbers);
  return new Uint8Array(view.buffer);
}

/** Writes the dynamic section, and a symbol, a name and a relocation for each import. */
function writeImports(
  view: DataView<ArrayBuffer>,
  imports: readonly string[],
  relocationType: number,
  setNumbers: (at: number, numbers: number[]) => void,
): void {
  const DT = { strings: 5, symbols: 6, relocations: 23, size: 2 };
  setNumbers(DYNAMIC, [
    ...[DT.strings, STRINGS, DT.symbols, SYMBOLS],
    ...[DT.relocations, RELOCATIONS, DT.size, 24 * imports.length],
  ]);
  let nameAt = 1;
  imports.forEach((name, index) => {
    view.setUint32(SYMBOLS + 24 * (index + 1), nameAt, true);
    const bytes = new TextEncoder().encode(name);
    new Uint8Array(view.buffer).set(bytes, STRINGS + nameAt);
    nameAt += bytes.length + 1;
    const relocation = RELOCATIONS + 24 * index;
    setNumbers(relocation, [SAMPLE_SLOTS + 8 * index]);
    view.setUint32(relocation + 8, relocationType, true);
    view.setUint32(relocation + 12, index + 1, true);
  });
}
