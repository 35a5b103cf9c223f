/**
 * How much may be sent: no more than the connection and the stream have room for.
 *
 * Source: RFC 9113 section 5.2 and 6.9.
 *
 * @module
 */

import { MAX_PAYLOAD_LENGTH } from "./frames.ts";
import { Http2Error } from "./http2_error.ts";

const INITIAL_SIZE = 65_535;
const LARGEST_SIZE = 2 ** 31 - 1;

/** The number of the connection, beside those of streams. */
const CONNECTION = 0;

/** The windows of a connection and of the streams on it. */
export class SendWindows {
  readonly #sizes = new Map<number, number>([[CONNECTION, INITIAL_SIZE]]);
  #initialSize = INITIAL_SIZE;
  #changed = Promise.withResolvers<void>();

  /** Begins with a stream. */
  open(streamId: number): void {
    this.#sizes.set(streamId, this.#initialSize);
  }

  /** Ends with a stream; who waits to send on it learns of it. */
  close(streamId: number): void {
    this.#sizes.delete(streamId);
    this.#tell();
  }

  /** Ends with all of them. */
  closeAll(): void {
    this.#sizes.clear();
    this.#tell();
  }

  /** Adds room; to the connection for 0. @throws {Http2Error} If it is nothing, or too much */
  add(streamId: number, increment: number): void {
    const size = this.#sizes.get(streamId);
    if (size === undefined) return;
    if (increment === 0) {
      throw new Http2Error("protocolError", "A window grows by nothing");
    }
    this.#set(streamId, size + increment);
    this.#tell();
  }

  /** Sets what streams begin with. Those that there are change by the difference, to less than nothing even. */
  setInitialSize(size: number): void {
    const difference = size - this.#initialSize;
    this.#initialSize = size;
    for (const [streamId, before] of this.#sizes) {
      if (streamId !== CONNECTION) this.#set(streamId, before + difference);
    }
    this.#tell();
  }

  /**
   * Waits until a stream may send, and takes that room.
   *
   * @param wanted In bytes
   * @returns How much of it, at most a frame; 0 if the stream is closed
   */
  async take(streamId: number, wanted: number): Promise<number> {
    for (;;) {
      const ofConnection = this.#sizes.get(CONNECTION);
      const ofStream = this.#sizes.get(streamId);
      if (ofConnection === undefined || ofStream === undefined) return 0;
      const room = Math.min(
        ...[wanted, MAX_PAYLOAD_LENGTH, ofConnection, ofStream],
      );
      if (room > 0) {
        this.#sizes.set(CONNECTION, ofConnection - room);
        this.#sizes.set(streamId, ofStream - room);
        return room;
      }
      await this.#changed.promise;
    }
  }

  #set(streamId: number, size: number): void {
    if (size > LARGEST_SIZE) {
      const message = `A window of ${size} bytes is too large`;
      throw new Http2Error("flowControlError", message);
    }
    this.#sizes.set(streamId, size);
  }

  #tell(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}
