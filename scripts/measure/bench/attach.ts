/**
 * Doing something with attachments: with one, step by step, or with many at
 * the same time.
 *
 * @module
 */

import type { NetNs } from "../../../ffi/netns.ts";
import type { Call, CallRunner, Outcome, RunningCall } from "./call.ts";
import { combineMeasures, type Measures } from "./measures.ts";
import { waitFor } from "./process.ts";
import type { Attachment, PlannedCall, Verb } from "./route.ts";

/** The steps to run on an attachment. */
export interface Job {
  readonly verb: Verb;
  readonly attachment: Attachment;
  readonly calls: readonly PlannedCall[];
}

/** The measurement of one of several calls. */
export interface MeasuredCall {
  /** See {@linkcode PlannedCall}. */
  readonly plugin: string;
  readonly measures: Measures;
}

/**
 * Does one job, call by call.
 *
 * @param run How to run each call, which decides on the measurement
 * @throws {CallFailure} Of the first call that fails
 */
export function runJob(
  { verb, attachment, calls }: Job,
  run: (call: Call) => Outcome,
): MeasuredCall[] {
  return calls.map(({ plugin, make }) => {
    const { stdout, measures } = run(make(attachment));
    if (verb === "ADD") attachment.result = stdout;
    return { plugin, measures };
  });
}

/** A job with a running call. */
interface RunningJob {
  readonly job: Job;
  /** The call's position. */
  readonly at: number;
  readonly call: RunningCall;
}

/** Where jobs are done, and how many at the same time. */
export interface Workshop {
  readonly runner: CallRunner;
  readonly host: NetNs;
  readonly width: number;
}

/**
 * Does jobs, several at the same time, each call by call. After a failure no
 * other job is begun.
 *
 * @throws {CallFailure} If a call fails, once all others have ended
 */
export function runJobs(
  jobs: readonly Job[],
  { runner, host, width }: Workshop,
): Measures {
  const waiting = jobs.toReversed();
  const running = new Map<number, RunningJob>();
  const measures: Measures[] = [];
  const failures: unknown[] = [];

  function begin(job: Job | undefined, at: number): void {
    const planned = job?.calls[at];
    if (job === undefined || planned === undefined) return;
    const call = runner.start(planned.make(job.attachment), host);
    running.set(call.pid, { job, at, call });
  }

  function endOne(): void {
    const ended = waitFor(-1);
    const done = running.get(ended.pid);
    if (done === undefined) return; // An orphan of a call's.
    running.delete(ended.pid);
    const { job, at, call } = done;
    const outcome = call.finish(ended);
    measures.push(outcome.measures);
    if (job.verb === "ADD") job.attachment.result = outcome.stdout;
    const isLast = at + 1 === job.calls.length;
    if (isLast) begin(waiting.pop(), 0);
    else begin(job, at + 1);
  }

  const startMs = performance.now();
  while (running.size < width && waiting.length > 0) begin(waiting.pop(), 0);
  while (running.size > 0) {
    try {
      endOne();
    } catch (error) {
      failures.push(error);
      waiting.length = 0;
    }
  }
  if (failures.length > 0) throw failures[0];
  return {
    wallMs: performance.now() - startMs,
    cpuMs: combineMeasures(measures).cpuMs ?? 0,
  };
}
