/**
 * The start-up code for arm64, and an assembler for the few instructions in it.
 *
 * Source: Arm Architecture Reference Manual (DDI 0487), chapter C6; ELF for the
 * Arm 64-bit Architecture; System V ABI for the Arm 64-bit Architecture.
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

/** A general register, by its number in an instruction: `x0` to `x30`. */
export type Register = number;

/** The stack pointer, as a base address or in an addition; elsewhere 31 is the register that is always 0. */
export const SP: Register = 31;
/** The register that is always 0, as a source. */
export const XZR: Register = 31;

const EXIT_GROUP = 94;

/** Instructions on 64 bits each, in Arm's order: the destination comes first, except for stores. */
export class Arm64Assembler extends Assembler {
  /** `mov target, source`, which is `orr target, xzr, source` */
  move(target: Register, source: Register): void {
    this.#word(0xaa0003e0 | source << 16 | target);
  }

  /** `movz target, #value` */
  moveNumber(target: Register, value: number): void {
    this.#word(0xd2800000 | unsigned(value, 16) << 5 | target);
  }

  /** `movk target, #value, lsl #16`: bits 16 to 31 */
  moveUpperNumber(target: Register, value: number): void {
    this.#word(0xf2a00000 | unsigned(value, 16) << 5 | target);
  }

  /** `ldr target, [base, #offset]` */
  load(target: Register, base: Register, offset = 0): void {
    this.#word(0xf9400000 | scaled(offset) << 10 | base << 5 | target);
  }

  /** `str source, [base, #offset]` */
  store(source: Register, base: Register, offset = 0): void {
    this.#word(0xf9000000 | scaled(offset) << 10 | base << 5 | source);
  }

  /** `ldr target, [base], #8`: and then adds 8 to the base */
  loadNext(target: Register, base: Register): void {
    this.#word(0xf8400400 | 8 << 12 | base << 5 | target);
  }

  /** `str source, [base], #8`: and then adds 8 to the base */
  storeNext(source: Register, base: Register): void {
    this.#word(0xf8000400 | 8 << 12 | base << 5 | source);
  }

  /** `ldrb target, [base], #1`: and then adds 1 to the base */
  loadNextByte(target: Register, base: Register): void {
    this.#word(0x38400400 | 1 << 12 | base << 5 | target);
  }

  /** `ldrb target, [base, index]` */
  loadByte(target: Register, base: Register, index: Register): void {
    this.#word(0x38606800 | index << 16 | base << 5 | target);
  }

  /** `strb source, [base]` */
  storeByte(source: Register, base: Register): void {
    this.#word(0x39000000 | base << 5 | source);
  }

  /** `adr target, label`, for a label in the same segment */
  loadLabel(target: Register, label: string): void {
    this.#reference(0x10000000 | target, label, (at, destination) => {
      const distance = destination - at;
      expectFits(`the distance to "${label}"`, distance, 21);
      return splitAddress(distance);
    });
  }

  /** `adrp target, label`: the address of the label's page */
  loadPage(target: Register, label: string): void {
    this.#reference(0x90000000 | target, label, (at, destination) => {
      const pages = pageOf(destination) - pageOf(at);
      expectFits(`the distance to "${label}"`, pages, 21);
      return splitAddress(pages);
    });
  }

  /** `add target, source, #:lo12:label`: completes what `loadPage` began */
  addPageOffset(target: Register, source: Register, label: string): void {
    this.#reference(
      0x91000000 | source << 5 | target,
      label,
      (_, destination) => (destination & 0xfff) << 10,
    );
  }

  /** `ldr target, [base, #:lo12:label]`: loads from the address that `loadPage` began */
  loadPageOffset(target: Register, base: Register, label: string): void {
    this.#reference(
      0xf9400000 | base << 5 | target,
      label,
      (_, destination) => scaled(destination & 0xfff) << 10,
    );
  }

  /** `add target, left, right` */
  add(target: Register, left: Register, right: Register): void {
    this.#word(0x8b000000 | right << 16 | left << 5 | target);
  }

  /** `add target, left, right, lsl #3`: adds eight times as much */
  addEightfold(target: Register, left: Register, right: Register): void {
    this.#word(0x8b000000 | 3 << 10 | right << 16 | left << 5 | target);
  }

  /** `add target, source, #value` */
  addNumber(target: Register, source: Register, value: number): void {
    this.#word(0x91000000 | unsigned(value, 12) << 10 | source << 5 | target);
  }

  /** `sub target, source, #value` */
  subtractNumber(target: Register, source: Register, value: number): void {
    this.#word(0xd1000000 | unsigned(value, 12) << 10 | source << 5 | target);
  }

  /** `sub target, left, right` */
  subtract(target: Register, left: Register, right: Register): void {
    this.#word(0xcb000000 | right << 16 | left << 5 | target);
  }

  /** `lsl target, source, #bits`, which is `ubfm target, source, #(64 - bits), #(63 - bits)` */
  shiftLeft(target: Register, source: Register, bits: number): void {
    this.#bitfield(target, source, 64 - bits, 63 - bits);
  }

  /** `lsr target, source, #bits`, which is `ubfm target, source, #bits, #63` */
  shiftRight(target: Register, source: Register, bits: number): void {
    this.#bitfield(target, source, bits, 63);
  }

  /** `and target, left, right` */
  and(target: Register, left: Register, right: Register): void {
    this.#word(0x8a000000 | right << 16 | left << 5 | target);
  }

  /** `cmp left, #value`, which is `subs xzr, left, #value` */
  compareNumber(left: Register, value: number): void {
    this.#word(0xf100001f | unsigned(value, 12) << 10 | left << 5);
  }

  /** `cmp left, right`, which is `subs xzr, left, right` */
  compare(left: Register, right: Register): void {
    this.#word(0xeb00001f | right << 16 | left << 5);
  }

  /** `b label` */
  jump(label: string): void {
    this.#branch(0x14000000, label, 26, 0);
  }

  /** `b.eq label` */
  jumpIfEqual(label: string): void {
    this.#branch(0x54000000, label, 19, 5);
  }

  /** `b.ne label` */
  jumpIfNotEqual(label: string): void {
    this.#branch(0x54000001, label, 19, 5);
  }

  /** `b.lo label` */
  jumpIfLower(label: string): void {
    this.#branch(0x54000003, label, 19, 5);
  }

  /** `b.hs label` */
  jumpIfNotLower(label: string): void {
    this.#branch(0x54000002, label, 19, 5);
  }

  /** `tbnz register, #63, label`: if the highest bit is set */
  jumpIfSign(register: Register, label: string): void {
    this.#branch(0xb7f80000 | register, label, 14, 5);
  }

  /** `cbz register, label` */
  jumpIfZero(register: Register, label: string): void {
    this.#branch(0xb4000000 | register, label, 19, 5);
  }

  /** `cbnz register, label` */
  jumpIfNotZero(register: Register, label: string): void {
    this.#branch(0xb5000000 | register, label, 19, 5);
  }

  /** `br register` */
  jumpTo(register: Register): void {
    this.#word(0xd61f0000 | register << 5);
  }

  /** `blr register`; the return address goes to x30 */
  call(register: Register): void {
    this.#word(0xd63f0000 | register << 5);
  }

  /** `svc #0` */
  systemCall(): void {
    this.#word(0xd4000001);
  }

  /** `ubfm target, source, #rotation, #last` */
  #bitfield(
    target: Register,
    source: Register,
    rotation: number,
    last: number,
  ): void {
    this.#word(
      0xd3400000 | unsigned(rotation, 6) << 16 | unsigned(last, 6) << 10 |
        source << 5 | target,
    );
  }

  #word(word: number): void {
    this.emit(
      [word, word >> 8, word >> 16, word >> 24].map((part) => part & 0xff),
    );
  }

  /** An instruction that `field` completes with bits; both offsets count from the origin. */
  #reference(
    word: number,
    label: string,
    field: (at: number, destination: number) => number,
  ): void {
    this.emitReference([0, 0, 0, 0], label, (view, at, destination) => {
      view.setUint32(at, (word | field(at, destination)) >>> 0, true);
    });
  }

  /** A branch: the distance in instructions, `bits` wide, at bit `shift`. */
  #branch(word: number, label: string, bits: number, shift: number): void {
    this.#reference(word, label, (at, destination) => {
      const distance = (destination - at) / 4;
      expectFits(`the distance to "${label}"`, distance, bits);
      return (distance & (2 ** bits - 1)) << shift;
    });
  }
}

/** Places the 21 bits of adr and adrp: the lower two at bit 29, the others at bit 5. */
function splitAddress(value: number): number {
  return (value & 3) << 29 | (value >> 2 & 0x7ffff) << 5;
}

/** Returns the number of a page of 4 KiB; `>>` would cut a large address off. */
function pageOf(offset: number): number {
  return Math.floor(offset / 0x1000);
}

/** Requires a number without a sign that fits into `bits`. */
function unsigned(value: number, bits: number): number {
  expectFits("an immediate operand", value - 2 ** (bits - 1), bits);
  return value;
}

/** Returns an offset in units of 8 bytes, as loads and stores of 64 bits have it. */
function scaled(offset: number): number {
  return unsigned(offset / 8, 12);
}

/**
 * Assembles the start-up code and its texts; it begins at `origin`, which is
 * the start of a page.
 *
 * Source: at the entry point `sp` is aligned to 16 and points at `argc`, and
 * `x0` holds a function to be called at exit.
 */
export function assembleStub(
  origin: number,
  plan: StubPlan,
): Uint8Array<ArrayBuffer> {
  const code = new Arm64Assembler(origin);
  defineTargets(code, plan);
  requireArguments(code);
  dropVariables(code);
  setVariables(code, Object.keys(plan.variables).length);
  leaveDeletedDirectory(code);
  insertArguments(code, plan.args.length);
  code.move(0, 19); // the function to be called at exit, for _start
  code.loadPage(16, Label.entry);
  code.addPageOffset(16, 16, Label.entry);
  code.jumpTo(16);
  appendTexts(code, plan);
  return code.assemble();
}

function requireArguments(code: Arm64Assembler): void {
  code.move(19, 0); // kept in a register that functions preserve
  code.load(1, SP); // x1 = argc
  code.jumpIfNotZero(1, "has arguments");
  code.moveNumber(8, EXIT_GROUP);
  code.moveNumber(0, NO_ARGUMENTS_STATUS);
  code.systemCall();
  code.label("has arguments");
}

/** Walks over envp with one pointer to read and one to write. */
function dropVariables(code: Arm64Assembler): void {
  code.addNumber(2, SP, 16); // behind argc and the NULL of argv,
  code.addEightfold(2, 2, 1); // and argv: x2 = &envp[0], to read
  code.move(3, 2); // x3 = &envp[0], to write

  code.label("next variable");
  code.loadNext(4, 2); // x4 = "NAME=value"
  code.jumpIfZero(4, "end of variables");
  code.loadLabel(5, Label.prefixes); // x5 = list of prefixes

  code.label("next prefix");
  code.loadNextByte(6, 5); // x6 = length of the prefix, x5 = its characters
  code.jumpIfZero(6, "keep variable"); // the list ends without a match
  code.moveNumber(7, 0); // x7 = number of characters that agree

  code.label("next character");
  code.loadByte(8, 4, 7);
  code.loadByte(9, 5, 7);
  code.compare(8, 9); // the variable's final 0 agrees with no prefix
  code.jumpIfNotEqual("prefix differs");
  code.addNumber(7, 7, 1);
  code.compare(7, 6);
  code.jumpIfLower("next character");
  code.jump("next variable"); // all agree: it is not written

  code.label("prefix differs");
  code.add(5, 5, 6);
  code.jump("next prefix");

  code.label("keep variable");
  code.storeNext(4, 3);
  code.jump("next variable");

  code.label("end of variables");
  code.store(XZR, 3); // the NULL at the end
}

/** Calls setenv(name, value, 1) for each variable. */
function setVariables(code: Arm64Assembler, count: number): void {
  for (let index = 0; index < count; index++) {
    code.loadLabel(0, Label.variableName(index));
    code.loadLabel(1, Label.variableValue(index));
    code.moveNumber(2, 1); // replace it if it is there
    callSlot(code, Label.slot("setenv"));
  }
}

/** Calls chdir("/") if getcwd(NULL, 0) fails. */
function leaveDeletedDirectory(code: Arm64Assembler): void {
  code.moveNumber(0, 0); // memory that libc allocates
  code.moveNumber(1, 0); // as much as is needed
  callSlot(code, Label.slot("getcwd"));
  code.jumpIfNotZero(0, "directory exists");
  code.loadLabel(0, Label.root);
  callSlot(code, Label.slot("chdir"));
  code.label("directory exists");
}

/** Calls the function at the address stored at a label, through the scratch register x16. */
function callSlot(code: Arm64Assembler, label: string): void {
  code.loadPage(16, label);
  code.loadPageOffset(16, 16, label);
  code.call(16);
}

function insertArguments(code: Arm64Assembler, count: number): void {
  code.load(1, SP); // x1 = argc
  code.load(2, SP, 8); // x2 = argv[0]
  code.subtractNumber(SP, SP, 8 * count); // room: argv[1] stays where it is
  code.addNumber(1, 1, count);
  code.store(1, SP);
  code.store(2, SP, 8);
  for (let index = 0; index < count; index++) {
    code.loadLabel(1, Label.argument(index));
    code.store(1, SP, 16 + 8 * index);
  }
}
