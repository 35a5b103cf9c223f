/**
 * The operations of the call stub for x86-64.
 *
 * Source: System V ABI, AMD64 supplement, A.2.1; Linux
 * arch/x86/entry/syscalls/syscall_64.tbl.
 *
 * @module
 */

import { Register as Machine, X86Assembler } from "../../mkdenort/x86_64.ts";
import type {
  Argument,
  Base,
  Kept,
  Processor,
  Register,
  Relation,
  SystemCall,
} from "./processor.ts";

const registers = {
  a: Machine.rbx,
  b: Machine.rbp,
  c: Machine.r12,
  d: Machine.r13,
  e: Machine.r14,
  f: Machine.r15,
  result: Machine.rax,
  frame: Machine.rsp,
} as const satisfies Record<Base, Machine>;

const { rax, rdx, rsp, rsi, rdi, r8, r9, r10 } = Machine;

/** Of system calls. */
const parameters = [rdi, rsi, rdx, r10, r8, r9] as const;

const numbers: Readonly<Record<SystemCall, number>> = {
  clock_gettime: 228,
  close: 3,
  connect: 42,
  dup3: 292,
  exit_group: 231,
  faccessat: 269,
  fcntl: 72,
  geteuid: 107,
  getsockopt: 55,
  lseek: 8,
  memfd_create: 319,
  mmap: 9,
  munmap: 11,
  newfstatat: 262,
  openat: 257,
  pipe2: 293,
  ppoll: 271,
  read: 0,
  rt_sigaction: 13,
  readlinkat: 267,
  sendto: 44,
  shutdown: 48,
  socket: 41,
  write: 1,
};

/** Writes code for x86-64. */
export class X86Processor implements Processor {
  /** The buffer that it writes to. */
  readonly code: X86Assembler;

  /** @param origin Address of the first instruction */
  constructor(origin: number) {
    this.code = new X86Assembler(origin);
  }

  enter(frameBytes: number, keptAt: number): void {
    this.code.subtractNumber(rsp, frameBytes);
    this.code.store({ base: rsp, displacement: keptAt }, rdx);
  }

  leave(frameBytes: number, keptAt: number, label: string): void {
    this.code.load(rdx, { base: rsp, displacement: keptAt });
    this.code.addNumber(rsp, frameBytes);
    this.code.jump(label);
  }

  leaveTo(frameBytes: number, keptAt: number, target: Kept): void {
    this.code.load(rdx, { base: rsp, displacement: keptAt });
    this.code.addNumber(rsp, frameBytes);
    this.code.jumpTo(registers[target]);
  }

  label(name: string): void {
    this.code.label(name);
  }

  number(target: Register, value: number): void {
    this.code.moveNumber(registers[target], value | 0);
  }

  move(target: Register, source: Register): void {
    this.code.move(registers[target], registers[source]);
  }

  frameAddress(target: Register, offset: number): void {
    this.#frameAddress(registers[target], offset);
  }

  labelAddress(target: Register, label: string): void {
    this.code.loadLabel(registers[target], label);
  }

  load(target: Register, base: Base, offset: number): void {
    const memory = { base: registers[base], displacement: offset };
    this.code.load(registers[target], memory);
  }

  loadByte(target: Register, base: Register): void {
    this.code.loadByte(registers[target], { base: registers[base] });
  }

  store(source: Register, base: Base, offset: number): void {
    const memory = { base: registers[base], displacement: offset };
    this.code.store(memory, registers[source]);
  }

  storeByte(source: Register, base: Register): void {
    this.code.storeByte({ base: registers[base] }, registers[source]);
  }

  add(target: Register, source: Register): void {
    this.code.add(registers[target], registers[source]);
  }

  addNumber(target: Register, value: number): void {
    this.code.addNumber(registers[target], value);
  }

  subtract(target: Register, source: Register): void {
    this.code.subtract(registers[target], registers[source]);
  }

  shiftLeft(target: Register, bits: number): void {
    this.code.shiftLeft(registers[target], bits);
  }

  shiftRight(target: Register, bits: number): void {
    this.code.shiftRight(registers[target], bits);
  }

  and(target: Register, source: Register): void {
    this.code.and(registers[target], registers[source]);
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
    if (typeof right === "number") {
      this.code.compareNumber(registers[left], right);
    } else this.code.compare(registers[left], registers[right]);
    if (relation === "==") this.code.jumpIfZero(label);
    else if (relation === "!=") this.code.jumpIfNotZero(label);
    else if (relation === "<") this.code.jumpIfBelow(label);
    else this.code.jumpIfNotBelow(label);
  }

  jumpIfNegative(register: Register, label: string): void {
    this.code.test(registers[register]);
    this.code.jumpIfSign(label);
  }

  systemCall(name: SystemCall, ...args: readonly Argument[]): void {
    args.forEach((arg, index) => {
      const target = parameters[index];
      if (target === undefined) throw new Error(`${name}: too many arguments`);
      if (typeof arg === "string") this.code.move(target, registers[arg]);
      else if (typeof arg === "number") this.code.moveNumber(target, arg | 0);
      else if ("frame" in arg) this.#frameAddress(target, arg.frame);
      else this.code.loadLabel(target, arg.label);
    });
    this.code.moveNumber(rax, numbers[name]);
    this.code.systemCall();
  }

  #frameAddress(target: Machine, displacement: number): void {
    this.code.loadAddress(target, { base: rsp, displacement });
  }
}
