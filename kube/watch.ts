/**
 * Watches objects for changes.
 *
 * @module
 */

import { deadline, JoinedSignal } from "../base/deadline.ts";
import type { Channel } from "./connection.ts";
import { type Exchange, MAX_BYTES, readAnswer, readChunks } from "./answer.ts";
import { KubeError } from "./kube_error.ts";
import { failure } from "./no_answer.ts";
import type { Status, WatchEvent } from "./types.ts";

/** Time limit for the start of a watch, in milliseconds. */
const OPENING_MS = 10_000;
/** Default duration after which the server ends a watch, in seconds. */
const TIMEOUT_SECONDS = 300;
/** Additional time before the client ends it, in milliseconds. */
const GRACE_MS = 30_000;

/** Selects the objects of a watch, and its start. */
export interface WatchOptions {
  /**
   * The version to start from: the list's, or the last event's or bookmark's.
   */
  readonly resourceVersion: string;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /**
   * Duration after which the server ends the watch, in seconds; 300 by default.
   */
  readonly timeoutSeconds?: number | undefined;
  /** Ends the watch. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Called when the server starts to answer; the first event may come much
   * later.
   */
  readonly onOpen?: (() => void) | undefined;
}

/**
 * Opens a watch when its first event is requested. The server sends bookmarks,
 * so that the version stays current without events.
 *
 * @throws {KubeError} Like {@linkcode readEvents}, or if the watch is refused
 */
export async function* openWatch<T>(
  channel: Channel,
  path: string,
  { signal, onOpen, timeoutSeconds = TIMEOUT_SECONDS, ...options }:
    WatchOptions,
): AsyncGenerator<WatchEvent<T>, void> {
  const allowWatchBookmarks = "true";
  const query = { ...options, watch: 1, allowWatchBookmarks, timeoutSeconds };
  const limitMs = timeoutSeconds * 1000 + GRACE_MS;
  const opening = new AbortController();
  // A limit that counts would wake an idle process up many times a second.
  using end = new JoinedSignal(deadline(limitMs), opening.signal, signal);
  try {
    const request = { path, query };
    const exchange = await inTime(opening, channel.send(request, end.signal));
    if (exchange.answer.status !== 200) await readAnswer(exchange);
    onOpen?.();
    yield* readEvents<T>(exchange);
  } catch (error) {
    if (!signal?.aborted) throw error;
  }
}

/** Applies a time limit to the start of a long operation. */
async function inTime<T>(
  controller: AbortController,
  begun: Promise<T>,
): Promise<T> {
  const late = deadline(OPENING_MS);
  const onLate = (): void => controller.abort(late.reason);
  late.addEventListener("abort", onLate);
  try {
    return await begun;
  } finally {
    late.removeEventListener("abort", onLate);
  }
}

/** The content of a line; the object of an `ERROR` is a Status. */
type Line<T> = WatchEvent<T> | {
  readonly type: "ERROR";
  readonly object: Status;
};

/**
 * Reads the events of a watch until the server ends it.
 *
 * @throws {KubeError} If the server reports an error, or the connection breaks
 */
async function* readEvents<T>(
  exchange: Exchange,
): AsyncGenerator<WatchEvent<T>, void> {
  for await (const text of readLines(exchange)) {
    const line: Line<T> = parseLine(exchange, text);
    if (line.type === "ERROR") throw toError(line.object);
    yield line;
  }
}

async function* readLines(exchange: Exchange): AsyncGenerator<string, void> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of readChunks(exchange)) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    yield* lines.filter((line) => line !== "");
    if (rest.length > MAX_BYTES) {
      const why = `an event is longer than ${MAX_BYTES} bytes`;
      throw failure(exchange.request, why);
    }
  }
  if (rest !== "") yield rest;
}

function parseLine<T>(exchange: Exchange, text: string): Line<T> {
  try {
    return JSON.parse(text);
  } catch {
    throw failure(exchange.request, "an event of the watch is not JSON");
  }
}

function toError({ code = 500, reason = "", message = "" }: Status): KubeError {
  const text = message || "the server ended the watch with an error";
  return new KubeError(text, { status: code, reason });
}
