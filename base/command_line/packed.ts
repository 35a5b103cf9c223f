/**
 * Values that the build puts in place of the functions that make them.
 *
 * @module
 */

/** Unpacks a value that `pack()` of scripts/compile/bundle.ts has packed. */
export async function unpack<T>(packed: string): Promise<T> {
  const bytes = new Blob([Uint8Array.fromBase64(packed)]).stream()
    .pipeThrough(new DecompressionStream("brotli"));
  return await new Response(bytes).json();
}
