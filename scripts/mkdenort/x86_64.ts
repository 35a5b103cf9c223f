/**
 * The start-up code for x86-64, and an assembler for the few instructions in it.
 *
 * Each instruction has one encoding here, the most general one: size does not
 * matter, and one form is easier to check than three.
 *
 * Source: Intel SDM volume 2, chapters 2 and 3; System V ABI, AMD64 supplement 3.4.1.
 *
 * @module
 */

import { Assembler, expectFits } from "./assembler.ts";
import {
  appendTexts,
  defineTargets,
  Label,
  NO_ARGUMENTS_STATUS,
  type StubPlan,
} from "./stub.ts";

/** A general register, by its number in an instruction. */
export type Register = typeof Register[keyof typeof Register];

/** The general registers. */
export const Register = {
  rax: 0,
  rcx: 1,
  rdx: 2,
  rbx: 3,
  rsp: 4,
  rbp: 5,
  rsi: 6,
  rdi: 7,
  r8: 8,
  r9: 9,
  r10: 10,
  r11: 11,
  r12: 12,
  r13: 13,
  r14: 14,
  r15: 15,
} as const;

const { rax, rcx, rdx, rbx, rsp, rsi, rdi, r8, r9, r10, r11 } = Register;

/** The memory at `base + index * scale + displacement`. */
export interface MemoryOperand {
  readonly base: Register;
  readonly index?: Register;
  readonly scale?: 1 | 8;
  readonly displacement?: number;
}

const EXIT_GROUP = 231;

/** 64-bit instructions in Intel's order: the destination comes first. */
export class X86Assembler extends Assembler {
  /** `mov target, source` */
  move(target: Register, source: Register): void {
    this.#onRegisters(0x89, source, target);
  }

  /** `mov target, value`; the upper half becomes 0 */
  moveNumber(target: Register, value: number): void {
    expectFits("an immediate operand", value, 32);
    const rex = target > 7 ? [0x41] : [];
    this.emit([...rex, 0xb8 | target & 7, ...bytesOf(value)]);
  }

  /** `mov target, [memory]` */
  load(target: Register, memory: MemoryOperand): void {
    this.#onMemory([0x8b], target, memory);
  }

  /** `mov [memory], source` */
  store(memory: MemoryOperand, source: Register): void {
    this.#onMemory([0x89], source, memory);
  }

  /** `movzx target, byte ptr [memory]` */
  loadByte(target: Register, memory: MemoryOperand): void {
    this.#onMemory([0x0f, 0xb6], target, memory);
  }

  /** `mov byte ptr [memory], source` */
  storeByte(memory: MemoryOperand, source: Register): void {
    this.#onMemory([0x88], source, memory);
  }

  /** `lea target, [memory]` */
  loadAddress(target: Register, memory: MemoryOperand): void {
    this.#onMemory([0x8d], target, memory);
  }

  /** `lea target, [rip + label]` */
  loadLabel(target: Register, label: string): void {
    this.#relative(
      [0x48 | target >> 3 << 2, 0x8d, 5 | (target & 7) << 3],
      label,
    );
  }

  /** `add target, source` */
  add(target: Register, source: Register): void {
    this.#onRegisters(0x01, source, target);
  }

  /** `add target, value` */
  addNumber(target: Register, value: number): void {
    this.#onNumber(0, target, value);
  }

  /** `sub target, value` */
  subtractNumber(target: Register, value: number): void {
    this.#onNumber(5, target, value);
  }

  /** `sub target, source` */
  subtract(target: Register, source: Register): void {
    this.#onRegisters(0x29, source, target);
  }

  /** `shl target, bits` */
  shiftLeft(target: Register, bits: number): void {
    this.#shift(4, target, bits);
  }

  /** `shr target, bits` */
  shiftRight(target: Register, bits: number): void {
    this.#shift(5, target, bits);
  }

  /** `and target, source` */
  and(target: Register, source: Register): void {
    this.#onRegisters(0x21, source, target);
  }

  /** `cmp left, value` */
  compareNumber(left: Register, value: number): void {
    this.#onNumber(7, left, value);
  }

  /** `cmp left, right` */
  compare(left: Register, right: Register): void {
    this.#onRegisters(0x39, right, left);
  }

  /** `test register, register` */
  test(register: Register): void {
    this.#onRegisters(0x85, register, register);
  }

  /** `jmp label` */
  jump(label: string): void {
    this.#relative([0xe9], label);
  }

  /** `jmp target` */
  jumpTo(target: Register): void {
    this.emit([...target > 7 ? [0x41] : [], 0xff, 0xe0 | target & 7]);
  }

  /** `jz label`, `je label` */
  jumpIfZero(label: string): void {
    this.#relative([0x0f, 0x84], label);
  }

  /** `jnz label`, `jne label` */
  jumpIfNotZero(label: string): void {
    this.#relative([0x0f, 0x85], label);
  }

  /** `jb label` */
  jumpIfBelow(label: string): void {
    this.#relative([0x0f, 0x82], label);
  }

  /** `jnb label` */
  jumpIfNotBelow(label: string): void {
    this.#relative([0x0f, 0x83], label);
  }

  /** `js label` */
  jumpIfSign(label: string): void {
    this.#relative([0x0f, 0x88], label);
  }

  /** `call [rip + label]`: calls the function at the address stored there */
  callSlot(label: string): void {
    this.#relative([0xff, 0x15], label);
  }

  /** `syscall` */
  systemCall(): void {
    this.emit([0x0f, 0x05]);
  }

  /** REX.W, operation code, ModRM for two registers. */
  #onRegisters(code: number, register: Register, target: Register): void {
    this.emit([
      0x48 | register >> 3 << 2 | target >> 3,
      code,
      0xc0 | (register & 7) << 3 | target & 7,
    ]);
  }

  /** REX.W, 0x81, ModRM with the operation instead of a register, 32 bits. */
  #onNumber(operation: number, target: Register, value: number): void {
    expectFits("an immediate operand", value, 32);
    this.emit([
      0x48 | target >> 3,
      0x81,
      0xc0 | operation << 3 | target & 7,
      ...bytesOf(value),
    ]);
  }

  /** REX.W, 0xc1, ModRM with the operation instead of a register, 8 bits. */
  #shift(operation: number, target: Register, bits: number): void {
    this.emit([
      0x48 | target >> 3,
      0xc1,
      0xc0 | operation << 3 | target & 7,
      bits,
    ]);
  }

  /** REX.W, operation code, ModRM that announces 32 bits of displacement, SIB where there is need. */
  #onMemory(
    code: readonly number[],
    register: Register,
    { base, index, scale = 1, displacement = 0 }: MemoryOperand,
  ): void {
    expectFits("a displacement", displacement, 32);
    // In SIB rsp as the index means none; in ModRM rsp or r12 as the base means SIB.
    const indexNumber = index ?? rsp;
    const sib = (scale === 8 ? 0xc0 : 0) | (indexNumber & 7) << 3 | base & 7;
    const hasSib = index !== undefined || (base & 7) === rsp;
    this.emit([
      0x48 | register >> 3 << 2 | indexNumber >> 3 << 1 | base >> 3,
      ...code,
      0x80 | (register & 7) << 3 | (hasSib ? rsp : base & 7),
      ...(hasSib ? [sib] : []),
      ...bytesOf(displacement),
    ]);
  }

  /** Operation code and the distance from the next instruction, in 32 bits. */
  #relative(code: readonly number[], label: string): void {
    this.emitReference([...code, 0, 0, 0, 0], label, (view, at, target) => {
      const field = at + code.length;
      const distance = target - (field + 4);
      expectFits(`the distance to "${label}"`, distance, 32);
      view.setInt32(field, distance, true);
    });
  }
}

/** Returns a number as four bytes, lowest first. */
function bytesOf(value: number): number[] {
  return [value, value >> 8, value >> 16, value >> 24].map((part) =>
    part & 0xff
  );
}

/**
 * Assembles the start-up code and its texts; it begins at `origin`.
 *
 * Source: AMD64 ABI figure 3.9: at the entry point `rsp` is aligned to 16 and
 * points at `argc`, and `rdx` holds a function to be called at exit.
 */
export function assembleStub(
  origin: number,
  plan: StubPlan,
): Uint8Array<ArrayBuffer> {
  const code = new X86Assembler(origin);
  defineTargets(code, plan);
  requireArguments(code);
  dropVariables(code);
  setVariables(code, Object.keys(plan.variables).length);
  leaveDeletedDirectory(code);
  insertArguments(code, plan.args.length);
  code.move(rdx, rbx); // the function to be called at exit, for _start
  code.jump(Label.entry);
  appendTexts(code, plan);
  return code.assemble();
}

function requireArguments(code: X86Assembler): void {
  code.move(rbx, rdx); // kept in a register that functions preserve
  code.load(rcx, { base: rsp }); // rcx = argc
  code.test(rcx);
  code.jumpIfNotZero("has arguments");
  code.moveNumber(rax, EXIT_GROUP);
  code.moveNumber(rdi, NO_ARGUMENTS_STATUS);
  code.systemCall();
  code.label("has arguments");
}

/** Walks over envp with one pointer to read and one to write. */
function dropVariables(code: X86Assembler): void {
  // rsi = &envp[0], to read: behind argc, argv and the NULL of argv
  code.loadAddress(rsi, { base: rsp, index: rcx, scale: 8, displacement: 16 });
  code.move(rdi, rsi); // rdi = &envp[0], to write

  code.label("next variable");
  code.load(rax, { base: rsi }); // rax = "NAME=value"
  code.addNumber(rsi, 8);
  code.test(rax);
  code.jumpIfZero("end of variables");
  code.loadLabel(r8, Label.prefixes); // r8 = list of prefixes

  code.label("next prefix");
  code.loadByte(rcx, { base: r8 }); // rcx = length of the prefix
  code.addNumber(r8, 1); // r8 = its characters
  code.test(rcx);
  code.jumpIfZero("keep variable"); // the list ends without a match
  code.moveNumber(r9, 0); // r9 = number of characters that agree

  code.label("next character");
  code.loadByte(r10, { base: rax, index: r9 });
  code.loadByte(r11, { base: r8, index: r9 });
  code.compare(r10, r11); // the variable's final 0 agrees with no prefix
  code.jumpIfNotZero("prefix differs");
  code.addNumber(r9, 1);
  code.compare(r9, rcx);
  code.jumpIfBelow("next character");
  code.jump("next variable"); // all agree: it is not written

  code.label("prefix differs");
  code.add(r8, rcx);
  code.jump("next prefix");

  code.label("keep variable");
  code.store({ base: rdi }, rax);
  code.addNumber(rdi, 8);
  code.jump("next variable");

  code.label("end of variables");
  code.store({ base: rdi }, rax); // the NULL at the end
}

/** Calls setenv(name, value, 1) for each variable. */
function setVariables(code: X86Assembler, count: number): void {
  for (let index = 0; index < count; index++) {
    code.loadLabel(rdi, Label.variableName(index));
    code.loadLabel(rsi, Label.variableValue(index));
    code.moveNumber(rdx, 1); // replace it if it is there
    code.callSlot(Label.slot("setenv"));
  }
}

/** Calls chdir("/") if getcwd(NULL, 0) fails. */
function leaveDeletedDirectory(code: X86Assembler): void {
  code.moveNumber(rdi, 0); // memory that libc allocates
  code.moveNumber(rsi, 0); // as much as is needed
  code.callSlot(Label.slot("getcwd"));
  code.test(rax);
  code.jumpIfNotZero("directory exists");
  code.loadLabel(rdi, Label.root);
  code.callSlot(Label.slot("chdir"));
  code.label("directory exists");
}

function insertArguments(code: X86Assembler, count: number): void {
  code.load(rax, { base: rsp }); // rax = argc
  code.load(rcx, { base: rsp, displacement: 8 }); // rcx = argv[0]
  code.subtractNumber(rsp, 8 * count); // room: argv[1] stays where it is
  code.addNumber(rax, count);
  code.store({ base: rsp }, rax);
  code.store({ base: rsp, displacement: 8 }, rcx);
  for (let index = 0; index < count; index++) {
    code.loadLabel(rcx, Label.argument(index));
    code.store({ base: rsp, displacement: 16 + 8 * index }, rcx);
  }
}
