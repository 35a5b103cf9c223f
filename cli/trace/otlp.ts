/**
 * Spans as OTLP has them in JSON.
 *
 * Source: opentelemetry-proto, trace/v1/trace.proto; OTLP Specification, "JSON
 * Protobuf Encoding".
 *
 * @module
 */

import type { JsonObject } from "../../base/json/json.ts";
import { PLUGINS_VERSION } from "../../base/process/build_identity.ts";
import type { Span, SpanAttributes } from "./span.ts";

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
