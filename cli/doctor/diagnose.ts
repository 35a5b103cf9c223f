/**
 * Runs the checks, and mends what can be mended.
 *
 * @module
 */

import { pause } from "../../cni/call/deadline.ts";
import { formatFailureText, isDenied } from "../program/failure.ts";
import { CHECKS } from "./checks.ts";
import type { Check, Finding } from "./finding.ts";
import type { Node } from "./node.ts";

/** A finding, with the check that found it. */
export interface Found extends Finding {
  /** Name of the check. */
  readonly check: string;
}

/** A check that could not be run. */
export interface Unchecked {
  /** Name of the check. */
  readonly check: string;
  readonly reason: string;
  /** Whether root could run it. */
  readonly isDenied: boolean;
}

/** The outcome of all checks. */
export interface Diagnosis {
  /** Errors first. */
  readonly findings: readonly Found[];
  readonly unchecked: readonly Unchecked[];
}

/** How long checks may run before timers get their turn, in ms. */
const BETWEEN_YIELDS_MS = 100;

const ORDER = ["error", "warning", "info"];

/**
 * Runs checks.
 *
 * @param onStart Receives the name of each check before it runs
 */
export async function diagnose(
  node: Node,
  onStart: (check: string) => void = () => {},
  checks: readonly Check[] = CHECKS,
): Promise<Diagnosis> {
  const findings: Found[] = [];
  const unchecked: Unchecked[] = [];
  let yieldedAt = performance.now();
  for (const { name, run } of checks) {
    onStart(name);
    try {
      if (performance.now() - yieldedAt > BETWEEN_YIELDS_MS) {
        // Lets the time limit and signals take effect.
        await pause(0);
        yieldedAt = performance.now();
      }
      node.signal.throwIfAborted();
      const found = await run(node);
      // What was interrupted may look like a fault.
      node.signal.throwIfAborted();
      findings.push(...found.map((finding) => ({ check: name, ...finding })));
    } catch (error) {
      unchecked.push({
        check: name,
        reason: node.signal.aborted
          ? "the time is up, or it was interrupted"
          : formatFailureText(error),
        isDenied: isDenied(error),
      });
    }
  }
  findings.sort((left, right) =>
    ORDER.indexOf(left.severity) - ORDER.indexOf(right.severity)
  );
  return { findings, unchecked };
}

/** The attempt to mend a finding. */
export interface Mended {
  readonly check: string;
  /** The change, in the past tense; undefined if it failed. */
  readonly did: string | undefined;
  /** Why it failed. */
  readonly failure: string | undefined;
}

/** Mends all findings that can be mended without harm. */
export async function mendAll(
  findings: readonly Found[],
): Promise<readonly Mended[]> {
  const done: Mended[] = [];
  for (const { check, mend } of findings) {
    if (mend === undefined) continue;
    try {
      await mend.run();
      done.push({ check, did: mend.did, failure: undefined });
    } catch (error) {
      const failure = formatFailureText(error);
      done.push({ check, did: undefined, failure });
    }
  }
  return done;
}
