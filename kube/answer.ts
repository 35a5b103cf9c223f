/**
 * Reads the server's answers.
 *
 * @module
 */

import { parseObject } from "../base/json/parse_object.ts";
import { failure, type Named, noAnswer } from "./no_answer.ts";
import { refusal } from "./refusal.ts";
import type { HttpAnswer } from "./transport.ts";

/** The maximum size of an answer, in bytes: ten times the largest object. */
export const MAX_BYTES = 16 * 2 ** 20;

/** A request and its answer. */
export interface Exchange {
  readonly request: Named;
  readonly answer: HttpAnswer;
  /** The request's signal. */
  readonly signal: AbortSignal;
}

/**
 * Reads an answer.
 *
 * @returns Its JSON
 * @throws {KubeError} If the request did not succeed
 */
export async function readAnswer<T>(
  exchange: Exchange,
  maxBytes: number = MAX_BYTES,
): Promise<T> {
  const { request, answer } = exchange;
  const { status, headers } = answer;
  const isSuccess = status >= 200 && status <= 299;
  if (!isSuccess) {
    // The request is refused, even if the connection breaks within the reason.
    const text = await readText(exchange, maxBytes).catch(() => "");
    throw refusal(request, answer, text);
  }
  // An object that a user nested too deeply must not hide the others of a list.
  const value = parseObject(await readText(exchange, maxBytes));
  if (value !== undefined) return value as T;
  const type = headers.get("content-type") ?? "no type";
  const why = `the answer is not a JSON object but ${type}`;
  throw failure(request, why, { status });
}

/** @throws {KubeError} If the text is truncated or too long */
async function readText(
  exchange: Exchange,
  maxBytes: number,
): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const chunk of readChunks(exchange)) {
    bytes += chunk.length;
    text += decoder.decode(chunk, { stream: true });
    if (bytes > maxBytes) {
      const { request, answer: { status } } = exchange;
      const why = `the answer is longer than ${maxBytes} bytes`;
      throw failure(request, why, { status, isTooLong: true });
    }
  }
  return text + decoder.decode();
}

/**
 * Reads an answer as it arrives. Leaving the loop early cancels the rest.
 *
 * @throws {KubeError} If it is truncated
 */
export async function* readChunks(
  { request, answer, signal }: Exchange,
): AsyncGenerator<Uint8Array, void> {
  try {
    if (answer.body !== null) yield* answer.body;
  } catch (error) {
    // A truncated answer is useless: it counts as no answer.
    throw noAnswer(request, error, signal);
  }
}
