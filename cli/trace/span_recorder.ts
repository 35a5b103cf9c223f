/**
 * Makes spans of what is observed. What is done inside an operation becomes part
 * of its span, also if many calls take turns on one thread.
 *
 * @module
 */

import type { AsyncLocalStorage } from "node:async_hooks";
import type { Environment } from "../../base/process/environment.ts";
import { describeError } from "../../base/error.ts";
import { SyscallError } from "../../ffi/errno.ts";
import type { StepKind } from "./record.ts";
import { maskSecretValues } from "./record.ts";
import type { OtelSettings } from "./otel_settings.ts";
import { type Begun, type Ending, Recorder, type Subject } from "./recorder.ts";
import {
  parseTraceparent,
  randomId,
  type Span,
  type SpanContext,
  SpanKind,
  traceVariables,
} from "./span.ts";

/** Where an operation is: its span, and how its clock differs from the process's. */
interface Place {
  readonly context: SpanContext;
  /** Added to the time since the start of the process, in ms. */
  readonly originMs: number;
}

/** Makes spans. */
export class SpanRecorder extends Recorder {
  readonly #places: AsyncLocalStorage<Place | undefined>;
  readonly #isSampled: OtelSettings["isSampled"];
  readonly #onSpan: (span: Span) => void;
  /** The operation that contains all steps outside of other operations. */
  #root: Place | undefined;

  private constructor(
    places: AsyncLocalStorage<Place | undefined>,
    { isSampled }: Pick<OtelSettings, "isSampled">,
    onSpan: (span: Span) => void,
  ) {
    super();
    [this.#places, this.#isSampled, this.#onSpan] = [places, isSampled, onSpan];
  }

  /** @param onSpan Receives each span when it has ended */
  static async create(
    settings: Pick<OtelSettings, "isSampled">,
    onSpan: (span: Span) => void,
  ): Promise<SpanRecorder> {
    const { AsyncLocalStorage } = await import("node:async_hooks");
    return new SpanRecorder(new AsyncLocalStorage(), settings, onSpan);
  }

  override begin(subject: Subject, startMs = performance.now()): Begun {
    const outer = this.#places.getStore() ?? this.#root;
    if (outer === undefined || !outer.context.isSampled) return UNSEEN;
    const parent = outer.context;
    const context = { ...parent, spanId: randomId(8) };
    return this.#open(subject, startMs, { ...outer, context }, parent.spanId);
  }

  /**
   * Begins an operation that another process requested. There are no spans of
   * what is not part of one.
   *
   * @param env Says which span the caller has
   */
  beginCall(
    env: Environment,
    subject: Subject,
    startMs = performance.now(),
  ): Begun {
    const { TRACEPARENT = "", TRACESTATE = "" } = env;
    const parent = parseTraceparent(TRACEPARENT, TRACESTATE);
    const traceId = parent?.traceId ?? randomId(16);
    const isSampled = this.#isSampled(parent, traceId);
    const context = {
      traceId,
      spanId: isSampled ? randomId(8) : parent?.spanId ?? randomId(8),
      isSampled,
      state: parent?.state ?? "",
    };
    const place = { context, originMs: readOrigin() };
    if (isSampled) return this.#open(subject, startMs, place, parent?.spanId);
    return {
      variables: traceVariables(context),
      within: (work) => this.#places.run(place, work),
      end(): void {},
    };
  }

  /** Makes an operation the parent of all other operations of this process. */
  setRoot({ within }: Begun): void {
    this.#root = within(() => this.#places.getStore());
  }

  #open(
    subject: Subject,
    startMs: number,
    place: Place,
    parentId: string | undefined,
  ): Begun {
    return {
      variables: traceVariables(place.context),
      within: (work) => this.#places.run(place, work),
      end: (ending) => {
        this.settle();
        this.#onSpan(toSpan(subject, startMs, ending, { place, parentId }));
      },
    };
  }
}

/** An operation without a span. */
const UNSEEN: Begun = {
  variables: {},
  within: (work) => work(),
  end(): void {},
};

/** The largest accepted difference between clocks, in ms. */
const DRIFT_MS = 2;

/** Returns the start of the process on the present clock, which might have been set since. */
function readOrigin(): number {
  const originMs = Date.now() - performance.now();
  return Math.abs(originMs - performance.timeOrigin) > DRIFT_MS
    ? originMs
    : performance.timeOrigin;
}

const KINDS: Partial<Record<StepKind, Span["kind"]>> = {
  call: SpanKind.server,
  process: SpanKind.client,
};

/** Plugins often query objects that need not exist. */
const MAY_FAIL: readonly StepKind[] = ["netlink", "nftables", "file", "system"];

function toSpan(
  { kind, name, object, attributes }: Subject,
  startMs: number,
  { error, more, endMs = performance.now() }: Ending,
  { place: { context, originMs }, parentId }: {
    readonly place: Place;
    readonly parentId: string | undefined;
  },
): Span {
  const text = error === undefined ? undefined : mask(describeError(error));
  const isFailure = text !== undefined && !MAY_FAIL.includes(kind);
  return {
    context,
    parentId,
    // Names must be few: how many requests there are is an attribute.
    name: name.replace(/^\d+ /, ""),
    kind: KINDS[kind] ?? SpanKind.internal,
    startMs: originMs + startMs,
    endMs: originMs + endMs,
    attributes: {
      ...attributes,
      "cni.object": object ? mask(object) : undefined,
      "error.type": error === undefined ? undefined : nameError(error),
      "error.message": isFailure ? undefined : text,
      ...flatten(more),
    },
    error: isFailure ? text : undefined,
  };
}

function mask(text: string): string {
  return String(maskSecretValues(text));
}

function nameError(error: unknown): string {
  if (error instanceof SyscallError) return error.errno;
  return error instanceof Error ? error.constructor.name : typeof error;
}

function flatten(more: Ending["more"] = {}): Span["attributes"] {
  return Object.fromEntries(
    Object.entries(more).map(([key, value]) => [
      `cni.${key}`,
      typeof value === "number" || typeof value === "string"
        ? value
        : JSON.stringify(value),
    ]),
  );
}
