/**
 * The operations of the call stub for arm64.
 *
 * Source: Procedure Call Standard for the Arm 64-bit Architecture; Linux
 * include/uapi/asm-generic/unistd.h.
 *
 * @module
 */

import {
  Arm64Assembler,
  type Register as Machine,
  SP,
  XZR,
} from "../../mkdenort/aarch64.ts";
import type {
  Argument,
  Base,
  Kept,
  Processor,
  Register,
  Relation,
  SystemCall,
} from "./processor.ts";

const registers: Readonly<Record<Base, Machine>> = {
  a: 19,
  b: 20,
  c: 21,
  d: 22,
  e: 23,
  f: 24,
  result: 0,
  frame: SP,
};

/** Holds a system call's number; free otherwise. */
const SCRATCH: Machine = 8;
/** For a jump out of the segment. */
const TARGET: Machine = 16;

const numbers: Readonly<Record<SystemCall, number>> = {
  clock_gettime: 113,
  close: 57,
  connect: 203,
  dup3: 24,
  exit_group: 94,
  faccessat: 48,
  fcntl: 25,
  geteuid: 175,
  getsockopt: 209,
  lseek: 62,
  memfd_create: 279,
  mmap: 222,
  munmap: 215,
  newfstatat: 79,
  openat: 56,
  pipe2: 59,
  ppoll: 73,
  read: 63,
  rt_sigaction: 134,
  readlinkat: 78,
  sendto: 206,
  shutdown: 210,
  socket: 198,
  write: 64,
};

/** Of system calls. */
const MAX_PARAMETERS = 6;

/** Largest number that an addition or comparison has in itself. */
const MAX_IMMEDIATE = 4095;

/** Writes code for arm64. */
export class Arm64Processor implements Processor {
  /** The buffer that it writes to. */
  readonly code: Arm64Assembler;

  /** @param origin Address of the first instruction */
  constructor(origin: number) {
    this.code = new Arm64Assembler(origin);
  }

  enter(frameBytes: number, keptAt: number): void {
    this.code.subtractNumber(SP, SP, frameBytes);
    this.code.store(0, SP, keptAt);
  }

  leave(frameBytes: number, keptAt: number, label: string): void {
    this.code.load(0, SP, keptAt);
    this.code.addNumber(SP, SP, frameBytes);
    this.code.loadPage(TARGET, label);
    this.code.addPageOffset(TARGET, TARGET, label);
    this.code.jumpTo(TARGET);
  }

  leaveTo(frameBytes: number, keptAt: number, target: Kept): void {
    this.code.load(0, SP, keptAt);
    this.code.addNumber(SP, SP, frameBytes);
    this.code.jumpTo(registers[target]);
  }

  label(name: string): void {
    this.code.label(name);
  }

  number(target: Register, value: number): void {
    this.#number(registers[target], value);
  }

  move(target: Register, source: Register): void {
    this.code.move(registers[target], registers[source]);
  }

  frameAddress(target: Register, offset: number): void {
    this.code.addNumber(registers[target], SP, offset);
  }

  labelAddress(target: Register, label: string): void {
    this.code.loadLabel(registers[target], label);
  }

  load(target: Register, base: Base, offset: number): void {
    this.code.load(registers[target], registers[base], offset);
  }

  loadByte(target: Register, base: Register): void {
    this.code.loadByte(registers[target], registers[base], XZR);
  }

  store(source: Register, base: Base, offset: number): void {
    this.code.store(registers[source], registers[base], offset);
  }

  storeByte(source: Register, base: Register): void {
    this.code.storeByte(registers[source], registers[base]);
  }

  add(target: Register, source: Register): void {
    const register = registers[target];
    this.code.add(register, register, registers[source]);
  }

  addNumber(target: Register, value: number): void {
    const register = registers[target];
    if (value < 0) this.code.subtractNumber(register, register, -value);
    else this.code.addNumber(register, register, value);
  }

  subtract(target: Register, source: Register): void {
    const register = registers[target];
    this.code.subtract(register, register, registers[source]);
  }

  shiftLeft(target: Register, bits: number): void {
    this.code.shiftLeft(registers[target], registers[target], bits);
  }

  shiftRight(target: Register, bits: number): void {
    this.code.shiftRight(registers[target], registers[target], bits);
  }

  and(target: Register, source: Register): void {
    const register = registers[target];
    this.code.and(register, register, registers[source]);
  }

  jump(label: string): void {
    this.code.jump(label);
  }

  jumpIf(
    left: Register,
    relation: Relation,
    right: Register | number,
    label: string,
  ): void {
    if (typeof right === "string") {
      this.code.compare(registers[left], registers[right]);
    } else if (right <= MAX_IMMEDIATE) {
      this.code.compareNumber(registers[left], right);
    } else {
      this.#number(SCRATCH, right);
      this.code.compare(registers[left], SCRATCH);
    }
    if (relation === "==") this.code.jumpIfEqual(label);
    else if (relation === "!=") this.code.jumpIfNotEqual(label);
    else if (relation === "<") this.code.jumpIfLower(label);
    else this.code.jumpIfNotLower(label);
  }

  jumpIfNegative(register: Register, label: string): void {
    this.code.jumpIfSign(registers[register], label);
  }

  systemCall(name: SystemCall, ...args: readonly Argument[]): void {
    if (args.length > MAX_PARAMETERS) {
      throw new Error(`${name}: too many arguments`);
    }
    args.forEach((arg, target) => {
      if (typeof arg === "string") this.code.move(target, registers[arg]);
      else if (typeof arg === "number") this.#number(target, arg);
      else if ("frame" in arg) this.code.addNumber(target, SP, arg.frame);
      else this.code.loadLabel(target, arg.label);
    });
    this.#number(SCRATCH, numbers[name]);
    this.code.systemCall();
  }

  #number(target: Machine, value: number): void {
    this.code.moveNumber(target, value & 0xffff);
    const upper = value >>> 16;
    if (upper > 0) this.code.moveUpperNumber(target, upper);
  }
}
