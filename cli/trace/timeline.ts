/**
 * The records of a trace as a time line, also in Chrome's trace event format, which
 * Perfetto opens.
 *
 * @module
 */

import type { StepKind, TraceRecord } from "./record.ts";
import type { JsonObject } from "../../base/json/json.ts";

/** A record and its place. */
export interface TraceStep extends TraceRecord {
  /** When it began, in ms since the first record. */
  readonly atMs: number;
  readonly tookMs: number;
  /** How many records of its process contain it. */
  readonly depth: number;
}

/** Places the records, in order of time. */
export function toSteps(records: readonly TraceRecord[]): TraceStep[] {
  const firstUs = records[0]?.startUs ?? 0;
  const open = new Map<number, TraceRecord[]>();
  return records.map((record) => {
    const { pid, startUs, durationUs } = record;
    const around = (open.get(pid) ?? [])
      .filter((outer) => endOf(outer) >= startUs + durationUs);
    const depth = around.length;
    open.set(pid, [...around, record]);
    return {
      ...record,
      atMs: (startUs - firstUs) / 1000,
      tookMs: durationUs / 1000,
      depth,
    };
  });
}

function endOf({ startUs, durationUs }: TraceRecord): number {
  return startUs + durationUs;
}

/** The total time and the number of the records of a kind. */
export interface Total {
  readonly kind: StepKind;
  readonly count: number;
  readonly tookMs: number;
}

/** Names of kinds for people. */
export const KIND_NAMES: Readonly<Record<StepKind, string>> = {
  call: "processes of plugins",
  plugin: "plugins",
  netlink: "netlink",
  nftables: "nftables",
  file: "files",
  process: "programs",
  wait: "locks",
  system: "system calls",
};

/** Sums up requests, files and programs. Plugins contain these. */
export function sumUp(steps: readonly TraceStep[]): Total[] {
  const kinds = [
    "netlink",
    "nftables",
    "file",
    "process",
    "wait",
    "system",
  ] as const;
  return kinds.map((kind) => {
    const own = steps.filter((step) => step.kind === kind);
    const tookMs = own.reduce((sum, step) => sum + step.tookMs, 0);
    return { kind, count: own.length, tookMs };
  }).filter(({ count }) => count > 0);
}

/** Returns how long everything took, in ms. */
export function lengthOf(steps: readonly TraceStep[]): number {
  return Math.max(0, ...steps.map(({ atMs, tookMs }) => atMs + tookMs));
}

/** Formats a time in ms. */
export function formatMs(ms: number): string {
  return ms.toFixed(ms < 10 ? 2 : 1);
}

/**
 * Builds a document in Chrome's format. Times are in microseconds.
 *
 * Source: "Trace Event Format", complete events and metadata.
 */
export function toChromeTrace(steps: readonly TraceStep[]): JsonObject {
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
export function nameProcess(steps: readonly TraceStep[]): string {
  const step = steps.find(({ kind }) => kind === "call") ??
    steps.find(({ kind }) => kind === "plugin");
  return step?.name ?? "cni";
}
