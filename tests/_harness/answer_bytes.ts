/**
 * HTTP/1.1 responses without a server.
 *
 * @module
 */

import { AnswerReader } from "../../kube/http1.ts";
import type { ReadBytes } from "../../kube/http1_lines.ts";

/** Has text come in pieces of so many bytes, in the same memory each time. */
export function bytesOf(text: string, size: number = Infinity): ReadBytes {
  const bytes = new TextEncoder().encode(text);
  const memory = new Uint8Array(bytes.length);
  let at = 0;
  return () => {
    const piece = bytes.subarray(at, at + size);
    at += piece.length;
    memory.fill(0).set(piece);
    return Promise.resolve(
      piece.length === 0 ? undefined : memory.subarray(0, piece.length),
    );
  };
}

/** Reads responses from text in chunks as of {@linkcode bytesOf}. */
export function readerOf(text: string, size?: number): AnswerReader {
  return new AnswerReader(bytesOf(text, size));
}

/** Reads a body. */
export async function readText(reader: AnswerReader): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for (let piece; (piece = await reader.readPiece());) {
    text += decoder.decode(piece, { stream: true });
  }
  return text;
}
