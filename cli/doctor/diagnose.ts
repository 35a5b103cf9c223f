/**
 * Runs the checks, and fixes what can be fixed without harm.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";
import {
  formatFailureText,
  isDenied,
} from "../../base/command_line/failure.ts";
import { CHECKS } from "./checks.ts";
import type { Check, Finding } from "./finding.ts";
import type { NodeReader } from "../node/node_reader.ts";

/** A finding, with the check that found it. */
export interface DiagnosedFinding extends Finding {
  /** Name of the check. */
  readonly check: string;
  /** The check's code. */
  readonly code: string;
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
  readonly findings: readonly DiagnosedFinding[];
  readonly unchecked: readonly Unchecked[];
}

/** How long checks run before the event loop runs timers, in ms. */
const BETWEEN_YIELDS_MS = 100;

const ORDER = ["error", "warning", "info"];

/**
 * Runs checks.
 *
 * @param onStart Receives the name of each check before it runs
 */
export async function diagnose(
  node: NodeReader,
  onStart: (check: string) => void = () => {},
  checks: readonly Check[] = CHECKS,
): Promise<Diagnosis> {
  const findings: DiagnosedFinding[] = [];
  const unchecked: Unchecked[] = [];
  let yieldedAt = performance.now();
  for (const { code, name, run } of checks) {
    onStart(name);
    try {
      if (performance.now() - yieldedAt > BETWEEN_YIELDS_MS) {
        // Lets the time limit and signals take effect.
        await pause(0);
        yieldedAt = performance.now();
      }
      node.signal.throwIfAborted();
      const found = await run(node);
      // An interrupted check might report a fault that does not exist.
      node.signal.throwIfAborted();
      findings.push(
        ...found.map((finding) => ({ check: name, code, ...finding })),
      );
    } catch (error) {
      unchecked.push({
        check: name,
        reason: node.signal.aborted
          ? "the time limit expired, or it was interrupted"
          : formatFailureText(error),
        isDenied: isDenied(error),
      });
    }
  }
  findings.sort((left, right) =>
    ORDER.indexOf(left.severity) - ORDER.indexOf(right.severity)
  );
  return { findings: findings.filter(isCause), unchecked };
}

/**
 * Omits a finding that only reports where packets of containers end, if other
 * errors are about a container at one end of each path.
 */
function isCause(
  { isSymptom, about = [] }: DiagnosedFinding,
  _at: number,
  all: readonly DiagnosedFinding[],
): boolean {
  return isSymptom !== true ||
    !about.every((ends) =>
      all.some((other) =>
        other.severity === "error" && other.isSymptom !== true &&
        ends.some((name) =>
          other.subject === name || other.about?.flat().includes(name) ||
          isNamed(name, other.message)
        )
      )
    );
}

/** Reports whether a text contains a name as a whole word. */
function isNamed(name: string, text: string): boolean {
  const whole = `(?<![\\w./-])${RegExp.escape(name)}(?![\\w/-]|\\.\\w)`;
  return new RegExp(whole).test(text);
}

/** The attempt to fix a finding. */
export interface Fixed {
  readonly check: string;
  /** The change, in the past tense; undefined if it failed. */
  readonly did: string | undefined;
  /** Why it failed. */
  readonly failure: string | undefined;
}

/**
 * Fixes all findings that can be fixed without harm; none of them after the signal.
 */
export async function fixAll(
  findings: readonly DiagnosedFinding[],
  signal: AbortSignal,
): Promise<readonly Fixed[]> {
  const done: Fixed[] = [];
  for (const { check, fix } of findings) {
    if (fix === undefined) continue;
    // Lets the time limit and signals take effect.
    await pause(0);
    if (signal.aborted) break;
    try {
      await fix.run();
      done.push({ check, did: fix.did, failure: undefined });
    } catch (error) {
      const failure = formatFailureText(error);
      done.push({ check, did: undefined, failure });
    }
  }
  return done;
}

/** Findings of the same kind, shown as the first finding. */
export interface Collapsed extends DiagnosedFinding {
  /** How many there are. */
  readonly count: number;
  /** The other findings, unless their message is the same. */
  readonly also: readonly Pick<DiagnosedFinding, "message" | "command">[];
}

/** More findings of the same shape are shown as a single finding. */
const MOST_ALIKE = 3;

/** Combines findings with the same message, or with the same message about many subjects. */
export function collapse(findings: readonly DiagnosedFinding[]): Collapsed[] {
  const groups = Map.groupBy(findings, shapeOf);
  return [...groups.values()].flatMap((some) => {
    const byText = [...Map.groupBy(some, textOf).values()];
    const parts = byText.length > MOST_ALIKE ? [byText.flat()] : byText;
    return parts.flatMap((same) => {
      const [first] = same;
      if (first === undefined) return [];
      const also = new Map(
        same.filter(({ message }) => message !== first.message)
          .map(({ message, command }) => [message, { message, command }]),
      );
      return [{ ...first, count: same.length, also: [...also.values()] }];
    });
  });
}

function textOf({ message, command = "" }: DiagnosedFinding): string {
  return `${message}\n${command}`;
}

/** A finding without names, addresses and numbers. */
function shapeOf(
  { code, severity, message, subject = "" }: DiagnosedFinding,
): string {
  const text = message.replaceAll(subject === "" ? "\0" : subject, "*")
    .replace(/"[^"]*"/g, '"')
    .replace(/[\w.:-]*\d[\w.:/-]*/g, "#");
  return `${code} ${severity} ${text}`;
}
