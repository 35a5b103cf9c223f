import { assertEquals, assertThrows } from "@std/assert";
import { Register, X86Assembler } from "./x86_64.ts";
import { testRows } from "./rows_sample.ts";

const { rax, rcx, rdx, rbx, rsp, rsi, rdi, r8, r9, r10, r11 } = Register;
const { rbp, r12, r13, r14, r15 } = Register;

/**
 * Instructions, and what GNU as makes of them (`as -msyntax=intel`, memory
 * operands with `{disp32}`). Those with a label stand at 0x1000, the label at 0x2000.
 */
const encodings: [text: string, (code: X86Assembler) => void, hex: string][] = [
  ["mov rbx, rdx", (c) => c.move(rbx, rdx), "4889d3"],
  ["mov r9, rax", (c) => c.move(r9, rax), "4989c1"],
  ["mov rax, r10", (c) => c.move(rax, r10), "4c89d0"],
  ["mov eax, 231", (c) => c.moveNumber(rax, 231), "b8e7000000"],
  ["mov r9d, 0x1020304", (c) => c.moveNumber(r9, 0x1020304), "41b904030201"],
  ["mov rcx, [rsp]", (c) => c.load(rcx, { base: rsp }), "488b8c2400000000"],
  ["mov rax, [rsi]", (c) => c.load(rax, { base: rsi }), "488b8600000000"],
  [
    "mov rcx, [rsp+8]",
    (c) => c.load(rcx, { base: rsp, displacement: 8 }),
    "488b8c2408000000",
  ],
  ["mov r11, [r8]", (c) => c.load(r11, { base: r8 }), "4d8b9800000000"],
  ["mov [rdi], rax", (c) => c.store({ base: rdi }, rax), "48898700000000"],
  [
    "mov [rsp+0x70], rcx",
    (c) => c.store({ base: rsp, displacement: 0x70 }, rcx),
    "48898c2470000000",
  ],
  [
    "movzx rcx, byte ptr [r8]",
    (c) => c.loadByte(rcx, { base: r8 }),
    "490fb68800000000",
  ],
  [
    "movzx r10, byte ptr [rax+r9]",
    (c) => c.loadByte(r10, { base: rax, index: r9 }),
    "4e0fb6940800000000",
  ],
  [
    "movzx r11, byte ptr [r8+r9]",
    (c) => c.loadByte(r11, { base: r8, index: r9 }),
    "4f0fb69c0800000000",
  ],
  [
    "lea rsi, [rsp+rcx*8+16]",
    (c) =>
      c.loadAddress(rsi, { base: rsp, index: rcx, scale: 8, displacement: 16 }),
    "488db4cc10000000",
  ],
  ["lea rdi, [rip+label]", (c) => c.loadLabel(rdi, "label"), "488d3df90f0000"],
  ["lea r8, [rip+label]", (c) => c.loadLabel(r8, "label"), "4c8d05f90f0000"],
  ["add r8, rcx", (c) => c.add(r8, rcx), "4901c8"],
  ["add rax, r11", (c) => c.add(rax, r11), "4c01d8"],
  ["and r12, r13", (c) => c.and(r12, r13), "4d21ec"],
  ["jmp r11", (c) => c.jumpTo(r11), "41ffe3"],
  ["add rsi, 0x1000", (c) => c.addNumber(rsi, 0x1000), "4881c600100000"],
  ["add r8, 0x1000", (c) => c.addNumber(r8, 0x1000), "4981c000100000"],
  ["sub rsp, 0x1000", (c) => c.subtractNumber(rsp, 0x1000), "4881ec00100000"],
  ["cmp r10, r11", (c) => c.compare(r10, r11), "4d39da"],
  ["cmp r9, rcx", (c) => c.compare(r9, rcx), "4939c9"],
  ["cmp rax, r8", (c) => c.compare(rax, r8), "4c39c0"],
  ["test rcx, rcx", (c) => c.test(rcx), "4885c9"],
  ["test r9, r9", (c) => c.test(r9), "4d85c9"],
  ["mov rax, [r12]", (c) => c.load(rax, { base: r12 }), "498b842400000000"],
  [
    "mov [r13+16], r15",
    (c) => c.store({ base: r13, displacement: 16 }, r15),
    "4d89bd10000000",
  ],
  [
    "movzx r14, byte ptr [r12]",
    (c) => c.loadByte(r14, { base: r12 }),
    "4d0fb6b42400000000",
  ],
  [
    "rex.w mov byte ptr [r13], bl",
    (c) => c.storeByte({ base: r13 }, rbx),
    "49889d00000000",
  ],
  [
    "rex.w mov byte ptr [rbp], r14b",
    (c) => c.storeByte({ base: rbp }, r14),
    "4c88b500000000",
  ],
  ["sub rbx, r15", (c) => c.subtract(rbx, r15), "4c29fb"],
  ["shl r15, 32", (c) => c.shiftLeft(r15, 32), "49c1e720"],
  ["shr rbx, 3", (c) => c.shiftRight(rbx, 3), "48c1eb03"],
  ["cmp r15, 0x1000", (c) => c.compareNumber(r15, 0x1000), "4981ff00100000"],
  ["jnb label", (c) => c.jumpIfNotBelow("label"), "0f83fa0f0000"],
  ["js label", (c) => c.jumpIfSign("label"), "0f88fa0f0000"],
  ["jmp label", (c) => c.jump("label"), "e9fb0f0000"],
  ["jz label", (c) => c.jumpIfZero("label"), "0f84fa0f0000"],
  ["jnz label", (c) => c.jumpIfNotZero("label"), "0f85fa0f0000"],
  ["jb label", (c) => c.jumpIfBelow("label"), "0f82fa0f0000"],
  ["call [rip+label]", (c) => c.callSlot("label"), "ff15fa0f0000"],
  ["syscall", (c) => c.systemCall(), "0f05"],
];

testRows("X86Assembler encodes as GNU as does", encodings, ([, emit, hex]) => {
  const code = new X86Assembler(0x1000);
  code.label("label", 0x2000);
  emit(code);
  assertEquals(code.assemble().toHex(), hex);
});

Deno.test("every instruction of X86Assembler is in the table", () => {
  const used = new Set<string>();
  const spy = new Proxy(new X86Assembler(0), {
    get: (_, name) => () => used.add(String(name)),
  });
  for (const [, emit] of encodings) emit(spy);
  const all = Object.getOwnPropertyNames(X86Assembler.prototype);
  assertEquals([...used].sort(), all.slice(1).sort());
});

Deno.test("X86Assembler refuses a label that 32 bits do not reach", () => {
  const code = new X86Assembler(0);
  code.label("far away", 2 ** 31 + 5);
  code.jump("far away");
  assertThrows(
    () => code.assemble(),
    RangeError,
    'Cannot encode the distance to "far away"',
  );
});
