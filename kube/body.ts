/**
 * Reads the body of an answer.
 *
 * @module
 */

/** Size of the buffer for a body, in bytes. */
const PIECE_BYTES = 64 * 2 ** 10;

/** The last body's buffer, for the next body. */
const spare: Uint8Array<ArrayBuffer>[] = [];

/**
 * Reads a body piece by piece. A piece is valid until the next one is
 * requested. Leaving the loop early cancels the rest.
 *
 * If the body allows it, all pieces and the next body share one buffer.
 * Otherwise each piece would allocate 64 KiB, which is released late because
 * the garbage collector only measures its own heap: 200 MiB for a few thousand
 * small answers.
 *
 * @throws {Error} If it is truncated
 */
export async function* readBody(
  body: ReadableStream<Uint8Array>,
): AsyncGenerator<Uint8Array, void> {
  const reader = findByteReader(body);
  if (reader === undefined) return yield* body;
  let memory = spare.pop() ?? new Uint8Array(PIECE_BYTES);
  try {
    for (;;) {
      const { done, value } = await reader.read(memory);
      // The array that was passed in is detached; this is the same memory.
      if (value !== undefined) memory = new Uint8Array(value.buffer);
      if (done) return void (spare[0] = memory);
      yield value;
    }
  } finally {
    await reader.cancel();
  }
}

/** Returns undefined for a body that is not a byte stream. */
function findByteReader(
  body: ReadableStream<Uint8Array>,
): ReadableStreamBYOBReader | undefined {
  try {
    return body.getReader({ mode: "byob" });
  } catch (error) {
    if (error instanceof TypeError && !body.locked) return undefined;
    throw error;
  }
}
