/**
 * Spans of OpenTelemetry, the context in which they are, which a runtime says of its
 * own span in `TRACEPARENT`, and their form in OTLP.
 *
 * Source: opentelemetry-proto, trace/v1/trace.proto; OTLP Specification, "JSON
 * Protobuf Encoding".
 *
 * @module
 */

import type { JsonObject } from "../../base/json/json.ts";
import { PLUGINS_VERSION } from "../../base/process/build_identity.ts";

/** Where a span belongs. */
export interface SpanContext {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  /** Whether spans are wanted of this trace. */
  readonly isSampled: boolean;
  /** What other systems have added, `TRACESTATE`; "" for nothing. */
  readonly state: string;
}

/** Values of a span's attributes. */
export type SpanAttributes = Readonly<
  Record<string, string | number | boolean | undefined>
>;

/** `SpanKind` of OTLP: inside a process, a served request, a sent request. */
export const SpanKind = { internal: 1, server: 2, client: 3 } as const;

/** Something that took time. */
export interface Span {
  readonly context: SpanContext;
  /** Undefined for the first span of a trace. */
  readonly parentId: string | undefined;
  readonly name: string;
  readonly kind: typeof SpanKind[keyof typeof SpanKind];
  /** When it began and ended, in ms since 1970. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: SpanAttributes;
  /** Why it failed; undefined if it did not. */
  readonly error?: string | undefined;
}

const PARENT =
  /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const NONE = /^0*$/;

/**
 * Parses the span context of a caller.
 *
 * Source: W3C Trace Context, "traceparent".
 *
 * @returns Undefined without a context, or if it is malformed
 */
export function parseTraceparent(
  text: string,
  state = "",
): SpanContext | undefined {
  const [, version, traceId = "", spanId = "", flags = "", rest] =
    PARENT.exec(text) ?? [];
  if (version === undefined || version === "ff") return undefined;
  if (version === "00" && rest !== undefined) return undefined;
  if (NONE.test(traceId) || NONE.test(spanId)) return undefined;
  const isSampled = (parseInt(flags, 16) & 1) === 1;
  return { traceId, spanId, isSampled, state };
}

/** Formats a context, as other programs read it. */
export function formatTraceparent(
  { traceId, spanId, isSampled }: SpanContext,
): string {
  return `00-${traceId}-${spanId}-${isSampled ? "01" : "00"}`;
}

/** Returns the variables by which a program learns of the span that starts it. */
export function traceVariables(context: SpanContext): Record<string, string> {
  const { state } = context;
  return {
    TRACEPARENT: formatTraceparent(context),
    ...state !== "" && { TRACESTATE: state },
  };
}

/** Makes the ID of a trace, or of a span: random digits. */
export function randomId(bytes: 8 | 16): string {
  return crypto.getRandomValues(new Uint8Array(bytes)).toHex();
}

/** `STATUS_CODE_ERROR`. */
const FAILED = 2;
/** `SPAN_FLAGS_CONTEXT_IS_SAMPLED`: the flags of the context. */
const SAMPLED = 1;

/** Encodes a request that exports spans. */
export function encodeSpans(
  spans: readonly Span[],
  resource: SpanAttributes,
): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(JSON.stringify({
    resourceSpans: [{
      resource: { attributes: toAttributes(resource) },
      scopeSpans: [{
        scope: { name: "cni", version: PLUGINS_VERSION },
        spans: spans.map(toDocument),
      }],
    }],
  }));
}

function toDocument(
  { context, parentId, name, kind, startMs, endMs, attributes, error }: Span,
): JsonObject {
  const { traceId, spanId, state } = context;
  return {
    traceId,
    spanId,
    ...parentId !== undefined && { parentSpanId: parentId },
    ...state !== "" && { traceState: state },
    flags: SAMPLED,
    name,
    kind,
    startTimeUnixNano: toNanoseconds(startMs),
    endTimeUnixNano: toNanoseconds(endMs),
    attributes: toAttributes(attributes),
    ...error !== undefined && { status: { code: FAILED, message: error } },
  };
}

/** 64-bit numbers are texts. */
function toNanoseconds(ms: number): string {
  return `${Math.round(ms * 1000)}000`;
}

function toAttributes(attributes: SpanAttributes): JsonObject[] {
  return Object.entries(attributes).flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value: toValue(value) }]
  );
}

function toValue(value: string | number | boolean): JsonObject {
  if (typeof value === "boolean") return { boolValue: value };
  if (typeof value === "string") return { stringValue: value };
  return Number.isInteger(value)
    ? { intValue: String(value) }
    : { doubleValue: value };
}
