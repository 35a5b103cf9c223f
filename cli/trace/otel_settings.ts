/**
 * The variables of OpenTelemetry: where spans go, and of which calls there are
 * some.
 *
 * Source: OpenTelemetry Specification, "Environment Variable Specification" and
 * "OpenTelemetry Protocol Exporter".
 *
 * @module
 */

import type { Environment } from "../../base/process/environment.ts";
import { describeError } from "../../base/error.ts";
import type { SpanContext } from "./span.ts";

/** The settings in the variables. */
export interface OtelSettings {
  /** Where spans are posted to. */
  readonly url: URL;
  /** Sent along, such as tokens. */
  readonly headers: Readonly<Record<string, string>>;
  /** Time limit of a post, in ms. */
  readonly timeoutMs: number;
  /** Path of certificates of authorities; "" for the system's. */
  readonly certificate: string;
  /** A description of this process. */
  readonly resource: Readonly<Record<string, string>>;
  /** Decides whether there are spans of a call. */
  readonly isSampled: (
    parent: SpanContext | undefined,
    traceId: string,
  ) => boolean;
  /** How many spans can wait, and how many are sent together. */
  readonly maxQueue: number;
  readonly maxBatch: number;
  /** How long spans are collected before they are posted, in ms. */
  readonly delayMs: number;
}

/**
 * Reads the variables.
 *
 * @returns Undefined if no spans are wanted: without an address there are none
 * @throws {Error} If they are wanted, and a value is invalid or not supported
 */
export function readOtelSettings(env: Environment): OtelSettings | undefined {
  const read = (name: string): string => env[`OTEL_${name}`]?.trim() ?? "";
  const readOtlp = (name: string): string =>
    read(`EXPORTER_OTLP_TRACES_${name}`) || read(`EXPORTER_OTLP_${name}`);
  const endpoint = readOtlp("ENDPOINT");
  if (endpoint === "" || isOff(read)) return undefined;
  const protocol = readOtlp("PROTOCOL");
  if (!["", "http/protobuf", "http/json"].includes(protocol)) {
    throw new Error(`OTLP is supported over HTTP only, not over "${protocol}"`);
  }
  const isWhole = read("EXPORTER_OTLP_TRACES_ENDPOINT") !== "";
  return {
    url: parseUrl(isWhole ? endpoint : endpoint.replace(/\/*$/, "/v1/traces")),
    headers: parsePairs(readOtlp("HEADERS")),
    timeoutMs: parseCount(readOtlp("TIMEOUT"), 10_000),
    certificate: readOtlp("CERTIFICATE"),
    resource: {
      "service.name": "cni",
      ...parsePairs(read("RESOURCE_ATTRIBUTES")),
      ...read("SERVICE_NAME") !== "" &&
        { "service.name": read("SERVICE_NAME") },
    },
    isSampled: readSampler(read("TRACES_SAMPLER"), read("TRACES_SAMPLER_ARG")),
    maxQueue: parseCount(read("BSP_MAX_QUEUE_SIZE"), 2048),
    maxBatch: parseCount(read("BSP_MAX_EXPORT_BATCH_SIZE"), 512),
    delayMs: parseCount(read("BSP_SCHEDULE_DELAY"), 5000),
  };
}

function isOff(read: (name: string) => string): boolean {
  const exporter = read("TRACES_EXPORTER");
  return read("SDK_DISABLED").toLowerCase() === "true" ||
    exporter !== "" && !exporter.split(",").includes("otlp");
}

function parseUrl(text: string): URL {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new Error(`"${text}" is not the address of an HTTP server`);
  }
  return url;
}

/** Parses `name=value,name=value`, with values as in URLs. */
function parsePairs(text: string): Record<string, string> {
  const pairs = text.split(",").filter(Boolean).map((pair) => {
    const at = pair.indexOf("=");
    if (at < 1) throw new Error(`"${pair}" is not NAME=VALUE`);
    return [
      pair.slice(0, at).trim(),
      decode(pair.slice(at + 1).trim()),
    ] as const;
  });
  return Object.fromEntries(pairs);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    throw new Error(
      `"${text}" is not percent-encoded: ${describeError(error)}`,
    );
  }
}

/** A value that is not a number, or less than 1, is ignored. */
function parseCount(text: string, otherwise: number): number {
  const count = Number(text);
  return Number.isInteger(count) && count > 0 ? count : otherwise;
}

type Sampler = OtelSettings["isSampled"];

function readSampler(name: string, argument: string): Sampler {
  const ratio = argument === "" ? 1 : Number(argument);
  if (!(ratio >= 0 && ratio <= 1)) {
    throw new Error(
      `OTEL_TRACES_SAMPLER_ARG must be 0 to 1, not "${argument}"`,
    );
  }
  const samplers: Record<string, Sampler> = {
    always_on: () => true,
    always_off: () => false,
    traceidratio: (_, traceId) => partOf(traceId) < ratio,
  };
  const [, isParents, own = ""] =
    /^(parentbased_)?(.*)$/.exec(name || "parentbased_always_on") ?? [];
  const sampler = samplers[own];
  if (sampler === undefined) {
    throw new Error(`OTEL_TRACES_SAMPLER "${name}" is not supported`);
  }
  if (isParents === undefined) return sampler;
  return (parent, traceId) => parent?.isSampled ?? sampler(parent, traceId);
}

/** Random digits at the end of an ID that fit into a number. */
const DIGITS = 13;

/** Returns a number from 0 to below 1, the same for each span of a trace. */
function partOf(traceId: string): number {
  return parseInt(traceId.slice(-DIGITS), 16) / 16 ** DIGITS;
}
