/**
 * Posts the spans of a process that stays. It never makes anybody wait: spans that
 * find no room, or that the collector does not take, are dropped and counted.
 *
 * @module
 */

import { pause, waitUntil } from "../../base/deadline.ts";
import { describeError } from "../../base/error.ts";
import { isObject } from "../../base/json/json.ts";
import type { Log } from "../../base/log/log.ts";
import { encodeSpans, type Span } from "./span.ts";
import type { OtelSettings } from "./otel_settings.ts";

/** Posts spans. */
export class SpanExporter {
  readonly #settings: OtelSettings;
  readonly #log: Pick<Log, "warn" | "info">;
  readonly #client: Deno.HttpClient | undefined;
  readonly #end = new AbortController();
  readonly #queue: Span[] = [];
  #sending: Promise<void> | undefined;
  #isAwaited = false;
  #isFailing = false;
  /** How many spans the collector has taken. */
  exported = 0;
  /** How many are lost. */
  dropped = 0;

  /** @throws {Error} If the certificate cannot be read */
  constructor(settings: OtelSettings, log: Pick<Log, "warn" | "info">) {
    [this.#settings, this.#log] = [settings, log];
    const { certificate } = settings;
    if (certificate === "") return;
    const caCerts = [Deno.readTextFileSync(certificate)];
    this.#client = Deno.createHttpClient({ caCerts });
  }

  /** Queues a span, which is posted in a batch. */
  readonly add = (span: Span): void => {
    const { maxQueue, maxBatch } = this.#settings;
    if (this.#queue.length >= maxQueue) {
      this.dropped++;
      return;
    }
    this.#queue.push(span);
    if (this.#queue.length >= maxBatch) this.#send();
    else this.#await();
  };

  /** Waits for more spans. */
  async #await(): Promise<void> {
    if (this.#isAwaited) return;
    this.#isAwaited = true;
    await pause(this.#settings.delayMs, this.#end.signal);
    this.#isAwaited = false;
    this.#send();
  }

  #send(): void {
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined;
    });
  }

  async #sendAll(): Promise<void> {
    while (this.#queue.length > 0) {
      await this.#post(this.#queue.splice(0, this.#settings.maxBatch));
    }
  }

  async #post(spans: readonly Span[]): Promise<void> {
    const { url, headers, timeoutMs, resource } = this.#settings;
    const client = this.#client;
    try {
      const response = await fetch(url, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body: encodeSpans(spans, resource),
        redirect: "error",
        signal: AbortSignal.timeout(timeoutMs),
        ...client && { client },
      });
      const text = await readShort(response);
      if (!response.ok) {
        throw new Error(`it answered ${response.status} ${text}`);
      }
      const rejected = countRejected(text);
      this.dropped += rejected;
      this.exported += spans.length - rejected;
      if (this.#isFailing) this.#log.info("Exporting spans again", {});
      this.#isFailing = false;
    } catch (error) {
      this.dropped += spans.length;
      const why = describeError(error);
      if (!this.#isFailing) {
        this.#log.warn("Cannot export spans", { url: url.href, error: why });
      }
      this.#isFailing = true;
    }
  }

  /** Posts what there is, for a time in ms at most. */
  async finish(withinMs: number): Promise<void> {
    this.#end.abort();
    this.#send();
    const sending = this.#sending ?? Promise.resolve();
    await waitUntil(sending.then(() => true), AbortSignal.timeout(withinMs));
    this.#client?.close();
  }
}

/** Most characters of an answer that are looked at. */
const MAX_ANSWER = 4096;

/** Reads an answer of no more than a few kilobytes. */
async function readShort(response: Response): Promise<string> {
  let text = "";
  const chunks = response.body?.pipeThrough(new TextDecoderStream());
  for await (const chunk of chunks ?? []) {
    text += chunk;
    if (text.length > MAX_ANSWER) break;
  }
  return text.slice(0, MAX_ANSWER);
}

/** Source: opentelemetry-proto, `ExportTracePartialSuccess`. */
function countRejected(text: string): number {
  try {
    const { partialSuccess } = JSON.parse(text);
    return isObject(partialSuccess)
      ? Number(partialSuccess["rejectedSpans"] ?? 0) || 0
      : 0;
  } catch {
    return 0; // Some answer nothing.
  }
}
