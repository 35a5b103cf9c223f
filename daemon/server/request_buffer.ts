/**
 * The bytes of a request as they arrive.
 *
 * @module
 */

import { concat } from "../../net/bytes.ts";
import { sizeOfRequest } from "../wire/request.ts";

const LONGER = "It is longer than its stated length";

/**
 * Collects a request. It takes as much memory as has arrived, from the kernel
 * and not from the heap, so that all of it is freed immediately.
 */
export class RequestBuffer {
  /** The bytes before the size is known. */
  #head = new Uint8Array();
  /** All bytes so far; made when the size is known. */
  #body: ArrayBuffer | undefined;

  /** How many bytes there are. */
  get length(): number {
    return this.#body?.byteLength ?? this.#head.length;
  }

  /**
   * Adds bytes, which may change afterwards.
   *
   * @param maxBytes Longest request
   * @returns The request when it is complete
   * @throws {RangeError} If it is longer
   * @throws {Error} If it is not a request
   */
  add(
    bytes: Uint8Array<ArrayBuffer>,
    maxBytes: number,
  ): Uint8Array<ArrayBuffer> | undefined {
    if (this.#body !== undefined) return this.#append(this.#body, bytes);
    this.#head = concat([this.#head, bytes]);
    const size = sizeOfRequest(this.#head);
    if (Math.max(size ?? 0, this.#head.length) > maxBytes) {
      throw new RangeError("It is too long");
    }
    if (size === undefined) return undefined;
    if (size === this.#head.length) return this.#head;
    this.#body = new ArrayBuffer(0, { maxByteLength: size });
    return this.#append(this.#body, this.#head);
  }

  #append(
    body: ArrayBuffer,
    bytes: Uint8Array,
  ): Uint8Array<ArrayBuffer> | undefined {
    const at = body.byteLength;
    if (at + bytes.length > body.maxByteLength) throw new Error(LONGER);
    body.resize(at + bytes.length);
    new Uint8Array(body).set(bytes, at);
    if (body.byteLength < body.maxByteLength) return undefined;
    return new Uint8Array(this.#body = body.transferToFixedLength());
  }

  /** Gives the memory back, without waiting for a garbage collection. */
  free(): void {
    this.#body?.transferToFixedLength(0);
    this.#body = undefined;
    this.#head = new Uint8Array();
  }
}
