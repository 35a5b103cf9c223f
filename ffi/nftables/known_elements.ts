/**
 * What a process that stays knows of a large set or map, so that it need not ask the
 * kernel for all elements each time.
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";

/** Some elements of a list, undecoded: the bytes, and one character for each. */
export interface Part {
  readonly bytes: Bytes;
  readonly text: string;
}

/** The elements of one set or map, by their keys. */
export class KnownElements {
  readonly #parts = new Map<string, Part>();
  /** The generation of nf_tables in which they are so; undefined for none. */
  generation: number | undefined;
  /** Whether all elements are known, as far as no other program changes them. */
  isLearned = false;

  /** Number of elements. */
  get size(): number {
    return this.#parts.size;
  }

  /** Returns all elements. */
  get parts(): readonly Part[] {
    return [...this.#parts.values()];
  }

  /**
   * Learns all elements.
   *
   * @param generation Of nf_tables, in which they are so
   */
  learn(
    elements: readonly (readonly [key: Bytes, part: Part])[],
    generation: number,
  ): void {
    this.forget();
    for (const [key, part] of elements) this.add(key, part);
    this.generation = generation;
    this.isLearned = true;
  }

  /** Learns that an element was added, unless there was one with its key. */
  add(key: Bytes, part: Part): void {
    const id = key.toHex();
    if (!this.#parts.has(id)) this.#parts.set(id, part);
  }

  /** Learns that an element was deleted. */
  remove(key: Bytes): void {
    this.#parts.delete(key.toHex());
  }

  /** Learns that there are no elements any more. */
  clear(): void {
    this.#parts.clear();
  }

  /** Forgets everything. */
  forget(): void {
    this.clear();
    this.generation = undefined;
    this.isLearned = false;
  }
}
