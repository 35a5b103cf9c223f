/**
 * Values that the build substitutes for the functions that compute them.
 *
 * @module
 */

/**
 * Unpacks a value that `pack()` of scripts/compile/bundle.ts packed. A Blob and a
 * Response would be shorter, but take 5 ms longer to load.
 */
export async function unpack<T>(packed: string): Promise<T> {
  const { readable, writable } = new DecompressionStream("brotli");
  const writer = writable.getWriter();
  const written = Promise.all([
    writer.write(Uint8Array.fromBase64(packed)),
    writer.close(),
  ]);
  const decoder = new TextDecoder();
  let text = "";
  for await (const part of readable) {
    text += decoder.decode(part, { stream: true });
  }
  await written;
  return JSON.parse(text) as T;
}
