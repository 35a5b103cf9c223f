/**
 * Reading the body of an answer.
 *
 * @module
 */

/** Memory that a body is read into, in bytes. */
const PIECE_BYTES = 64 * 2 ** 10;

/** What the last body was read into, for the next one. */
const spare: Uint8Array<ArrayBuffer>[] = [];

/**
 * Reads a body, piece by piece, of which each is there until the next one is
 * asked for. Whoever leaves early has the rest cancelled.
 *
 * As far as the body lets us, pieces are read into the same memory, and that of
 * the next body too. Else each would have 64 KiB of its own, which are given
 * back late, since they are not in the heap that the garbage collector looks
 * at: 200 MiB for some thousand small answers.
 *
 * @throws {Error} If it ends before its end
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
      // What was handed in is not ours any more; this is the same memory.
      if (value !== undefined) memory = new Uint8Array(value.buffer);
      if (done) return void (spare[0] = memory);
      yield value;
    }
  } finally {
    await reader.cancel();
  }
}

/** Bodies that are made of something else are read as they are. */
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
