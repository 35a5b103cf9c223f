/**
 * A trace in Chrome's trace event format, which Perfetto opens.
 *
 * Source: "Trace Event Format", complete events and metadata.
 *
 * @module
 */

import type { JsonObject } from "../../base/json/json.ts";
import { KIND_NAMES, type Step } from "./timeline.ts";

/** Builds the document. Times are in microseconds. */
export function toChromeTrace(steps: readonly Step[]): JsonObject {
  const names = Map.groupBy(steps, ({ pid }) => pid);
  return {
    displayTimeUnit: "ms",
    traceEvents: [
      ...[...names].map(([pid, own]) => ({
        name: "process_name",
        ph: "M",
        pid,
        tid: pid,
        args: { name: nameProcess(own) },
      })),
      ...steps.map(({ kind, name, object, pid, error, detail, ...step }) => ({
        name: [name, object].filter(Boolean).join(" "),
        cat: KIND_NAMES[kind],
        ph: "X",
        ts: Math.round(step.atMs * 1000),
        dur: step.durationUs,
        pid,
        tid: pid,
        args: { ...detail, ...error !== undefined && { error } },
      })),
    ],
  };
}

/** Names a process after its call, or its first plugin. */
export function nameProcess(steps: readonly Step[]): string {
  const step = steps.find(({ kind }) => kind === "call") ??
    steps.find(({ kind }) => kind === "plugin");
  return step?.name ?? "cni";
}
