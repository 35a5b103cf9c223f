/**
 * The few operations that the call stub is written in, the same for every
 * processor.
 *
 * @module
 */

/** A register. System calls preserve all but `result`. */
export type Register = "a" | "b" | "c" | "d" | "e" | "f" | "result";

/** A register that system calls preserve. */
export type Kept = Exclude<Register, "result">;

/** The start of the memory that the stub has on the stack. */
export type Base = Register | "frame";

/** The arguments of a system call. */
export type Argument =
  | Kept
  | number
  | { readonly frame: number }
  | { readonly label: string };

/** Comparisons of numbers without a sign. */
export type Relation = "==" | "!=" | "<" | ">=";

/** The system calls of the stub. */
export type SystemCall =
  | "clock_gettime"
  | "close"
  | "connect"
  | "dup3"
  | "exit_group"
  | "faccessat"
  | "fcntl"
  | "geteuid"
  | "getsockopt"
  | "lseek"
  | "memfd_create"
  | "mmap"
  | "munmap"
  | "newfstatat"
  | "openat"
  | "pipe2"
  | "ppoll"
  | "read"
  | "rt_sigaction"
  | "readlinkat"
  | "sendto"
  | "shutdown"
  | "socket"
  | "write";

/** Writes machine code. Numbers in memory have 64 bits. */
export interface Processor {
  /** Reserves memory on the stack, and keeps in it what the entry point was given in registers. */
  enter(frameBytes: number, keptAt: number): void;
  /** Undoes {@linkcode enter}, and jumps. */
  leave(frameBytes: number, keptAt: number, label: string): void;
  /** Undoes {@linkcode enter}, and jumps to the address in a register. */
  leaveTo(frameBytes: number, keptAt: number, target: Kept): void;
  /** Names the next instruction. */
  label(name: string): void;
  /** `target = value`, from 0 to 2^32 - 1. */
  number(target: Register, value: number): void;
  /** `target = source` */
  move(target: Register, source: Register): void;
  /** `target = address of frame + offset` */
  frameAddress(target: Register, offset: number): void;
  /** `target = address of label` */
  labelAddress(target: Register, label: string): void;
  /** `target = memory[base + offset]` */
  load(target: Register, base: Base, offset: number): void;
  /** `target = byte at base` */
  loadByte(target: Register, base: Register): void;
  /** `memory[base + offset] = source` */
  store(source: Register, base: Base, offset: number): void;
  /** `byte at base = source` */
  storeByte(source: Register, base: Register): void;
  /** `target = target + source` */
  add(target: Register, source: Register): void;
  /** `target = target + value`, from -4095 to 4095. */
  addNumber(target: Register, value: number): void;
  /** `target = target - source` */
  subtract(target: Register, source: Register): void;
  /** `target = target * 2^bits` */
  shiftLeft(target: Register, bits: number): void;
  /** `target = target / 2^bits` */
  shiftRight(target: Register, bits: number): void;
  /** `target = target & source` */
  and(target: Register, source: Register): void;
  /** Jumps always. */
  jump(label: string): void;
  /** Jumps if two numbers compare so. */
  jumpIf(
    left: Register,
    relation: Relation,
    right: Register | number,
    label: string,
  ): void;
  /** Jumps if a number with a sign is below 0, as a failed system call's result is. */
  jumpIfNegative(register: Register, label: string): void;
  /** `result = system call` */
  systemCall(name: SystemCall, ...args: readonly Argument[]): void;
}
