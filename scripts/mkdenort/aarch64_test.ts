import { assertEquals, assertThrows } from "@std/assert";
import { Arm64Assembler, SP, XZR } from "./aarch64.ts";
import { testRows } from "./rows_sample.ts";

/**
 * Instructions, and what `llvm-mc -triple=aarch64 -show-encoding` makes of them,
 * as one number. Those with a label stand at 0x10000, the label at 0x12348.
 */
const encodings: [string, (code: Arm64Assembler) => void, number][] = [
  ["mov x19, x0", (c) => c.move(19, 0), 0xaa0003f3],
  ["mov x0, x19", (c) => c.move(0, 19), 0xaa1303e0],
  ["mov x8, #94", (c) => c.moveNumber(8, 94), 0xd2800bc8],
  ["mov x1, #65535", (c) => c.moveNumber(1, 65535), 0xd29fffe1],
  ["ldr x1, [sp]", (c) => c.load(1, SP), 0xf94003e1],
  ["ldr x2, [sp, #8]", (c) => c.load(2, SP, 8), 0xf94007e2],
  ["ldr x30, [x29, #32760]", (c) => c.load(30, 29, 32760), 0xf97fffbe],
  ["str xzr, [x3]", (c) => c.store(XZR, 3), 0xf900007f],
  ["str x1, [sp, #104]", (c) => c.store(1, SP, 104), 0xf90037e1],
  ["ldr x4, [x2], #8", (c) => c.loadNext(4, 2), 0xf8408444],
  ["str x4, [x3], #8", (c) => c.storeNext(4, 3), 0xf8008464],
  ["ldrb w6, [x5], #1", (c) => c.loadNextByte(6, 5), 0x384014a6],
  ["ldrb w8, [x4, x7]", (c) => c.loadByte(8, 4, 7), 0x38676888],
  ["adr x5, label", (c) => c.loadLabel(5, "label"), 0x10011a45],
  ["adrp x16, label", (c) => c.loadPage(16, "label"), 0xd0000010],
  [
    "add x16, x16, :lo12:label",
    (c) => c.addPageOffset(16, 16, "label"),
    0x910d2210,
  ],
  [
    "ldr x16, [x16, :lo12:label]",
    (c) => c.loadPageOffset(16, 16, "label"),
    0xf941a610,
  ],
  ["add x5, x5, x6", (c) => c.add(5, 5, 6), 0x8b0600a5],
  ["and x5, x5, x6", (c) => c.and(5, 5, 6), 0x8a0600a5],
  ["add x2, x2, x1, lsl #3", (c) => c.addEightfold(2, 2, 1), 0x8b010c42],
  ["add x2, sp, #16", (c) => c.addNumber(2, SP, 16), 0x910043e2],
  ["add x1, x1, #12", (c) => c.addNumber(1, 1, 12), 0x91003021],
  ["sub sp, sp, #96", (c) => c.subtractNumber(SP, SP, 96), 0xd10183ff],
  ["sub x7, x8, #4095", (c) => c.subtractNumber(7, 8, 4095), 0xd13ffd07],
  ["cmp x8, x9", (c) => c.compare(8, 9), 0xeb09011f],
  [
    "movk x9, #65535, lsl #16",
    (c) => c.moveUpperNumber(9, 65535),
    0xf2bfffe9,
  ],
  ["strb w20, [x19]", (c) => c.storeByte(20, 19), 0x39000274],
  ["ldrb w22, [x19, xzr]", (c) => c.loadByte(22, 19, XZR), 0x387f6a76],
  ["sub x19, x19, x24", (c) => c.subtract(19, 19, 24), 0xcb180273],
  ["lsl x24, x24, #32", (c) => c.shiftLeft(24, 24, 32), 0xd3607f18],
  ["lsr x19, x20, #3", (c) => c.shiftRight(19, 20, 3), 0xd343fe93],
  ["cmp x19, #4095", (c) => c.compareNumber(19, 4095), 0xf13ffe7f],
  ["b.eq label", (c) => c.jumpIfEqual("label"), 0x54011a40],
  ["b.hs label", (c) => c.jumpIfNotLower("label"), 0x54011a42],
  ["tbnz x0, #63, label", (c) => c.jumpIfSign(0, "label"), 0xb7f91a40],
  ["b label", (c) => c.jump("label"), 0x140008d2],
  ["b.ne label", (c) => c.jumpIfNotEqual("label"), 0x54011a41],
  ["b.lo label", (c) => c.jumpIfLower("label"), 0x54011a43],
  ["cbz x4, label", (c) => c.jumpIfZero(4, "label"), 0xb4011a44],
  ["cbnz x1, label", (c) => c.jumpIfNotZero(1, "label"), 0xb5011a41],
  ["br x16", (c) => c.jumpTo(16), 0xd61f0200],
  ["blr x16", (c) => c.call(16), 0xd63f0200],
  ["svc #0", (c) => c.systemCall(), 0xd4000001],
];

function assembleWord(emit: (code: Arm64Assembler) => void): number {
  const code = new Arm64Assembler(0x10000);
  code.label("label", 0x12348);
  emit(code);
  return new DataView(code.assemble().buffer).getUint32(0, true);
}

testRows("Arm64Assembler encodes as LLVM does", encodings, ([, emit, word]) => {
  assertEquals(assembleWord(emit).toString(16), word.toString(16));
});

Deno.test("Arm64Assembler branches backwards", () => {
  const code = new Arm64Assembler(0x10000);
  code.label("back");
  code.systemCall();
  code.jump("back");
  code.jumpIfLower("back");
  const view = new DataView(code.assemble().buffer);
  assertEquals(view.getUint32(4, true).toString(16), "17ffffff"); // b -4
  assertEquals(view.getUint32(8, true).toString(16), "54ffffc3"); // b.lo -8
});

Deno.test("every instruction of Arm64Assembler is in the table", () => {
  const used = new Set<string>();
  const spy = new Proxy(new Arm64Assembler(0), {
    get: (_, name) => () => used.add(String(name)),
  });
  for (const [, emit] of encodings) emit(spy);
  const all = Object.getOwnPropertyNames(Arm64Assembler.prototype);
  assertEquals([...used].sort(), all.slice(1).sort());
});

const refused: [text: string, (code: Arm64Assembler) => void][] = [
  ["a number of 17 bits", (c) => c.moveNumber(0, 65536)],
  ["a negative number", (c) => c.addNumber(0, 0, -1)],
  ["a number of 13 bits", (c) => c.subtractNumber(0, 0, 4096)],
  ["an offset that is not a multiple of 8", (c) => c.load(0, SP, 4)],
  ["a label that adr does not reach", (c) => {
    c.label("far", 0x10000 + 2 ** 20);
    c.loadLabel(0, "far");
  }],
  ["a label that cbz does not reach", (c) => {
    c.label("far", 0x10000 + 2 ** 20);
    c.jumpIfZero(0, "far");
  }],
  ["a label that is not at an instruction", (c) => {
    c.label("odd", 0x10002);
    c.jump("odd");
  }],
];

testRows("Arm64Assembler refuses what has no encoding", refused, ([, emit]) => {
  assertThrows(() => assembleWord(emit), RangeError, "Cannot encode");
});
