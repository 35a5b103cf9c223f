/**
 * The writer that several steps of the call stub share.
 *
 * @module
 */

import { WORD_BYTES } from "../../../daemon/protocol/call_format.ts";
import { Frame } from "./frame.ts";
import type { Kept, Processor, Register } from "./processor.ts";

/** Source: Linux asm-generic/errno-base.h. */
const EINTR = 4, EAGAIN = 11;

/**
 * The parts of a time limit. A process that was stopped meanwhile has waited for
 * one of them, and sees what has come before it gives up.
 */
export const TIMEOUT_MS = 125;

/** The step after a system call that fails. */
interface Failure {
  readonly fd: number | Kept;
  /** The event to wait for if the stream is non-blocking. */
  readonly events: number;
  /** The label of the call. */
  readonly again: string;
  readonly failed: string;
  /** Where to jump if the limit of {@linkcode Writer.setLimit} is over; without, there is none. */
  readonly expired?: string;
}

/** Labels that steps jump to. */
export const Step = {
  /** Something is wrong before stdin was read. */
  startDeno: "start deno",
  /** The same, after memory was mapped. */
  freeMemory: "free memory",
  /** deno is to run the call. */
  putBack: "put back",
  closeSocket: "close socket",
} as const;

/** Returns the number of an ASCII character. */
export function codeOf(character: string): number {
  return character.charCodeAt(0);
}

/** The registers' content, by a step's name for it. */
type Names = Readonly<Record<string, Kept>>;

/** A step of the code. */
export interface Part {
  /** The step, and the step that it belongs to. */
  readonly name: string;
  /** The content of each register. */
  readonly holds: Readonly<Partial<Record<Kept, string>>>;
}

/** Writes what occurs more than once. */
export class Writer {
  /** Writes machine code. */
  readonly p: Processor;
  /** Labels of texts, which the caller has to put behind the code. */
  readonly texts = new Map<string, string>();
  #labels = 0;
  #part: Part = { name: "", holds: {} };

  /** Starts without labels and texts. */
  constructor(processor: Processor) {
    this.p = processor;
  }

  /** The step that is being written. */
  get part(): Part {
    return this.#part;
  }

  /**
   * Begins a step, up to the end of the block that uses it, and names registers for
   * what they hold in it. The code is the same without; a listing shows both.
   */
  step<const N extends Names>(name: string, registers: N): N & Disposable {
    const outer = this.#part;
    const own = Object.entries(registers).map(([held, at]) => [at, held]);
    this.#part = {
      name: outer.name === "" ? name : `${outer.name}: ${name}`,
      holds: { ...outer.holds, ...Object.fromEntries(own) },
    };
    const end = (): void => {
      this.#part = outer;
    };
    return { ...registers, [Symbol.dispose]: end };
  }

  /** Names a place in the code. */
  newLabel(what: string): string {
    return `${what} ${this.#labels++}`;
  }

  /** Returns the label of a text. */
  text(value: string): string {
    const known = this.texts.get(value);
    if (known !== undefined) return known;
    const label = this.newLabel("text");
    this.texts.set(value, label);
    return label;
  }

  /** Jumps if a register points at a text; changes c, d, e and f. */
  jumpIfText(pointer: "a" | "b", text: string, label: string): void {
    const { p } = this;
    using r = this.step(`is it "${text}"`, {
      at: "c",
      expectedAt: "d",
      found: "e",
      expected: "f",
    });
    const [next, differs] = [this.newLabel("next"), this.newLabel("differs")];
    p.move(r.at, pointer);
    p.labelAddress(r.expectedAt, this.text(text));
    p.label(next);
    p.loadByte(r.found, r.at);
    p.loadByte(r.expected, r.expectedAt);
    p.jumpIf(r.found, "!=", r.expected, differs);
    p.jumpIf(r.found, "==", 0, label);
    p.addNumber(r.at, 1);
    p.addNumber(r.expectedAt, 1);
    p.jump(next);
    p.label(differs);
  }

  /** Loads the address of a part of the mapping. */
  memory(target: Register, offset: number, scratch: Register): void {
    const { p } = this;
    p.load(target, "frame", Frame.memory);
    p.number(scratch, offset);
    p.add(target, scratch);
  }

  /** Stores the address of a text. */
  setText(register: Register, text: string, at: number): void {
    this.p.labelAddress(register, this.text(text));
    this.p.store(register, "frame", at);
  }

  /** Copies a text up to its NUL, and moves both pointers; `byte` is then 0. */
  copyText(from: Kept, to: Kept, byte: Kept): void {
    const { p } = this;
    this.loop((next, end) => {
      p.loadByte(byte, from);
      p.jumpIf(byte, "==", 0, end);
      p.storeByte(byte, to);
      p.addNumber(from, 1);
      p.addNumber(to, 1);
      p.jump(next);
    });
  }

  /** Writes code between two labels, to which it may jump. */
  loop(write: (next: string, end: string) => void): void {
    const [next, end] = [this.newLabel("next"), this.newLabel("end")];
    this.p.label(next);
    write(next, end);
    this.p.label(end);
  }

  /** Begins a time limit, in units of {@linkcode TIMEOUT_MS}; changes f. */
  setLimit(timeouts: number): void {
    const { p } = this;
    using r = this.step("set the limit", { left: "f" });
    p.number(r.left, timeouts);
    p.store(r.left, "frame", Frame.timeouts);
    this.#beginTimeout();
  }

  #beginTimeout(): void {
    const { p } = this;
    using r = this.step("begin a timeout", { time: "f" });
    p.number(r.time, 0);
    p.store(r.time, "frame", Frame.timeout);
    p.number(r.time, TIMEOUT_MS * 1_000_000);
    p.store(r.time, "frame", Frame.timeout + WORD_BYTES);
  }

  /**
   * Jumps if a system call failed. Waits first if the stream is non-blocking;
   * changes e and f.
   */
  onFailure({ fd, events, again, failed, expired }: Failure): void {
    const { p } = this;
    using r = this.step("on failure", { descriptor: "e", pollfd: "f" });
    const [failure, succeeded] = [
      this.newLabel("failure"),
      this.newLabel("succeeded"),
    ];
    p.jumpIfNegative("result", failure);
    p.jump(succeeded);
    p.label(failure);
    p.addNumber("result", EINTR);
    p.jumpIf("result", "==", 0, again);
    p.addNumber("result", EAGAIN - EINTR);
    p.jumpIf("result", "!=", 0, failed);
    // struct pollfd: the descriptor, and the events in the upper half
    p.number(r.pollfd, events);
    p.shiftLeft(r.pollfd, 32);
    if (typeof fd === "number") p.number(r.descriptor, fd);
    else p.move(r.descriptor, fd);
    p.add(r.pollfd, r.descriptor);
    p.store(r.pollfd, "frame", Frame.poll);
    const limit = expired === undefined ? 0 : { frame: Frame.timeout };
    p.systemCall("ppoll", { frame: Frame.poll }, 1, limit, 0, 8);
    if (expired !== undefined) this.#endTimeout(again, expired);
    p.jump(again);
    p.label(succeeded);
  }

  /**
   * If ppoll() ended since its time is over, begins the next part of the limit.
   * The kernel keeps in `Frame.timeout` what is left of a part.
   */
  #endTimeout(again: string, expired: string): void {
    const { p } = this;
    using r = this.step("end a timeout", { left: "f" });
    p.jumpIf("result", "!=", 0, again);
    p.load(r.left, "frame", Frame.timeouts);
    p.addNumber(r.left, -1);
    p.jumpIf(r.left, "==", 0, expired);
    p.store(r.left, "frame", Frame.timeouts);
    this.#beginTimeout();
  }

  /** Loads the byte at a place, and moves on; jumps at the end. */
  nextByte(
    r: { readonly at: Kept; readonly end: Kept; readonly byte: Kept },
    atEnd: string,
  ): void {
    const { p } = this;
    p.jumpIf(r.at, ">=", r.end, atEnd);
    p.loadByte(r.byte, r.at);
    p.addNumber(r.at, 1);
  }
}
