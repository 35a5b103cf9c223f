/**
 * A large set or map as a long-running process has read it.
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import type { Part } from "./element_list.ts";

/** The elements of a set or map, by their keys. */
export class KnownElements {
  readonly #parts = new Map<string, Part>();

  /** @param elements All elements */
  constructor(elements: readonly (readonly [key: Bytes, part: Part])[]) {
    for (const [key, part] of elements) this.add(key, part);
  }

  /** Returns all elements. */
  get parts(): readonly Part[] {
    return [...this.#parts.values()];
  }

  /** Adds an element, or replaces the element with the same key. */
  add(key: Bytes, part: Part): void {
    this.#parts.set(key.toHex(), part);
  }

  /** Removes the element with a key. */
  remove(key: Bytes): void {
    this.#parts.delete(key.toHex());
  }
}
