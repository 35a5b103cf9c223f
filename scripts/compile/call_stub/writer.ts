/**
 * What several steps of the call stub are written with.
 *
 * @module
 */

import { Frame } from "./frame.ts";
import type { Processor, Register } from "./processor.ts";

/** A register that system calls preserve. */
type Kept = Exclude<Register, "result">;

/** Source: Linux asm-generic/errno-base.h. */
const EINTR = 4, EAGAIN = 11;

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

/** Writes what occurs more than once. */
export class Writer {
  /** Writes machine code. */
  readonly p: Processor;
  /** Labels of texts, which the caller has to put behind the code. */
  readonly texts = new Map<string, string>();
  #labels = 0;

  /** Starts without labels and texts. */
  constructor(processor: Processor) {
    this.p = processor;
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

  /** Moves a pointer to the next NUL; changes c. */
  findEnd(pointer: Kept): void {
    const { p } = this;
    const [next, end] = [this.newLabel("next"), this.newLabel("end")];
    p.label(next);
    p.loadByte("c", pointer);
    p.jumpIf("c", "==", 0, end);
    p.addNumber(pointer, 1);
    p.jump(next);
    p.label(end);
  }

  /** Jumps if a register points at a text; changes c, d, e and f. */
  jumpIfText(pointer: "a" | "b", text: string, label: string): void {
    const { p } = this;
    const [next, differs] = [this.newLabel("next"), this.newLabel("differs")];
    p.move("c", pointer);
    p.labelAddress("d", this.text(text));
    p.label(next);
    p.loadByte("e", "c");
    p.loadByte("f", "d");
    p.jumpIf("e", "!=", "f", differs);
    p.jumpIf("e", "==", 0, label);
    p.addNumber("c", 1);
    p.addNumber("d", 1);
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

  /**
   * Jumps if a system call failed. Waits first if the stream is non-blocking.
   *
   * @param name For labels
   */
  onFailure(
    name: string,
    fd: number | Kept,
    events: number,
    again: string,
    failed: string,
  ): void {
    const { p } = this;
    p.jumpIfNegative("result", name);
    const succeeded = this.newLabel("succeeded");
    p.jump(succeeded);
    p.label(name);
    p.addNumber("result", EINTR);
    p.jumpIf("result", "==", 0, again);
    p.addNumber("result", EAGAIN - EINTR);
    p.jumpIf("result", "!=", 0, failed);
    // struct pollfd: the descriptor, and the events in the upper half
    p.number("f", events);
    for (let bit = 0; bit < 32; bit++) p.add("f", "f");
    if (typeof fd === "number") p.number("e", fd);
    else p.move("e", fd);
    p.add("f", "e");
    p.store("f", "frame", Frame.poll);
    p.systemCall("ppoll", { frame: Frame.poll }, 1, 0, 0, 8);
    p.jump(again);
    p.label(succeeded);
  }

  /** Loads the byte at a and moves on. */
  nextByte(target: Register, atEnd: string): void {
    const { p } = this;
    p.jumpIf("a", ">=", "b", atEnd);
    p.loadByte(target, "a");
    p.addNumber("a", 1);
  }
}
