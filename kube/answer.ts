/**
 * Reads the server's answers.
 *
 * @module
 */

import { readBody } from "./body.ts";
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
  if (isSuccess(exchange.answer)) {
    return decodeAnswer<T>(exchange, await readText(exchange, maxBytes));
  }
  // The request is refused, even if the connection breaks within the reason.
  const text = await readText(exchange, maxBytes).catch(() => "");
  return decodeAnswer<T>(exchange, text);
}

function isSuccess({ status }: Pick<HttpAnswer, "status">): boolean {
  return status >= 200 && status <= 299;
}

/**
 * Decodes the text of an answer.
 *
 * @returns Its JSON
 * @throws {KubeError} If the request did not succeed
 */
export function decodeAnswer<T>(
  { request, answer }: {
    readonly request: Named;
    readonly answer: Omit<HttpAnswer, "body">;
  },
  text: string,
): T {
  if (!isSuccess(answer)) throw refusal(request, answer, text);
  const value = parseObject(text);
  if (value !== undefined) return value as T;
  const type = answer.headers.get("content-type") ?? "no type";
  throw failure(request, `the answer is no JSON object, but ${type}`, {
    status: answer.status,
  });
}

function parseObject(text: string): object | undefined {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Reads the text of an answer.
 *
 * @throws {KubeError} If it is truncated or too long
 */
export async function readText(
  exchange: Exchange,
  maxBytes: number = MAX_BYTES,
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
      throw failure(request, why, { status });
    }
  }
  return text + decoder.decode();
}

/**
 * Reads an answer as it arrives. A piece is valid until the next one is
 * requested. Leaving the loop early cancels the rest.
 *
 * @throws {KubeError} If it is truncated
 */
export async function* readChunks(
  { request, answer, signal }: Exchange,
): AsyncGenerator<Uint8Array, void> {
  try {
    if (answer.body !== null) yield* readBody(answer.body);
  } catch (error) {
    // A truncated answer is useless: it counts as no answer.
    throw noAnswer(request, error, signal);
  }
}
