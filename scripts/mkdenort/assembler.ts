/**
 * Collects machine code and data for a known address, and fills in the
 * distances to labels at the end. What an instruction looks like is said in
 * `x86_64.ts` and `aarch64.ts`.
 *
 * @module
 */

/**
 * Writes the distance to a label into an instruction.
 *
 * @param code All the code so far, to be changed
 * @param at Offset of the instruction's first byte
 * @param target Address of the label
 */
export type Patch = (code: DataView, at: number, target: number) => void;

interface Fixup {
  readonly at: number;
  readonly label: string;
  readonly patch: Patch;
}

/** Code and data that end up at one address. */
export class Assembler {
  /** Address of the first byte. */
  readonly origin: number;
  readonly #bytes: number[] = [];
  readonly #labels = new Map<string, number>();
  readonly #fixups: Fixup[] = [];

  constructor(origin: number) {
    this.origin = origin;
  }

  /** Address of the next byte. */
  get end(): number {
    return this.origin + this.#bytes.length;
  }

  /**
   * Gives a name to the next byte, or to any other address.
   *
   * @throws {Error} If the name is taken
   */
  label(name: string, address = this.end): void {
    if (this.#labels.has(name)) {
      throw new Error(`Cannot define label "${name}": it is defined already`);
    }
    this.#labels.set(name, address);
  }

  /** Appends bytes. */
  emit(bytes: Iterable<number>): void {
    this.#bytes.push(...bytes);
  }

  /** Appends an instruction that `patch` completes when the address of `label` is known. */
  emitReference(bytes: Iterable<number>, label: string, patch: Patch): void {
    this.#fixups.push({ at: this.#bytes.length, label, patch });
    this.emit(bytes);
  }

  /** Appends a text with a zero byte at its end, and names it. */
  text(name: string, value: string): void {
    this.label(name);
    this.emit(new TextEncoder().encode(`${value}\0`));
  }

  /**
   * Returns the bytes, complete.
   *
   * @throws {Error} If a label is not defined, or too far from where it is used
   */
  assemble(): Uint8Array<ArrayBuffer> {
    const code = Uint8Array.from(this.#bytes);
    const view = new DataView(code.buffer);
    for (const { at, label, patch } of this.#fixups) {
      const target = this.#labels.get(label);
      if (target === undefined) {
        throw new Error(`Cannot find label "${label}": it is not defined`);
      }
      patch(view, at, target - this.origin);
    }
    return code;
  }
}

/**
 * Requires that a number fits into a field of an instruction.
 *
 * @param bits Width of the field, for a number in two's complement
 * @throws {RangeError} If it does not
 */
export function expectFits(what: string, value: number, bits: number): void {
  const limit = 2 ** (bits - 1);
  if (Number.isInteger(value) && value >= -limit && value < limit) return;
  throw new RangeError(
    `Cannot encode ${what}: expected an integer from ${-limit} to ${
      limit - 1
    }, found ${value}`,
  );
}
