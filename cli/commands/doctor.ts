/**
 * `cni doctor`: finds what is wrong with the node, and mends what is safe to mend.
 *
 * @module
 */

import type { Output } from "../program/command.ts";
import { showControls, type Style } from "../program/style.ts";
import type { CniCall } from "../flags.ts";
import {
  diagnose,
  type Diagnosis,
  type Found,
  mendAll,
  type Mended,
  type Unchecked,
} from "../doctor/diagnose.ts";
import { Node, type NodeOptions } from "../doctor/node.ts";
import type { Patience } from "../doctor/way/trip.ts";
import { type Line, summarize } from "../doctor/summary.ts";
import { readFolders } from "../network.ts";

/** Parts of the node that tests replace. */
export interface Replaced
  extends Pick<NodeOptions, "hostNetns" | "proc" | "daemonSocket"> {
  readonly patience?: Patience;
}

/** Runs all checks. */
export async function doctor(
  call: CniCall,
  { patience, ...replaced }: Replaced = {},
): Promise<Output> {
  const { env, signal, flags } = call;
  const options = { folders: readFolders(call), env, signal, ...replaced };
  using node = new Node(options);
  if (flags.pod !== undefined) {
    const { showWay } = await import("./doctor_way.ts");
    const isStrict = flags.strict === true;
    return await showWay(node, flags.pod, { isStrict, patience });
  }
  call.onProgress?.("Checking the node");
  const found = await diagnose(node);
  const mended = flags.fix ? await mendAll(found.findings) : [];
  // What was mended is looked at again, with fresh eyes.
  using again = new Node(options);
  const left = mended.length === 0 ? found : await diagnose(again);
  return report(call, left, mended, await summarize(again));
}

function report(
  { flags }: CniCall,
  { findings, unchecked }: Diagnosis,
  mended: readonly Mended[],
  summary: readonly Line[],
): Output {
  const count = (severity: Found["severity"]): number =>
    findings.filter((finding) => finding.severity === severity).length;
  const [errors, warnings] = [count("error"), count("warning")];
  const isStrict = flags.strict === true;
  const isWell = errors === 0 && unchecked.length === 0 &&
    (!isStrict || warnings === 0) &&
    mended.every(({ failure }) => failure === undefined);
  return {
    json: {
      ok: isWell,
      errors,
      warnings,
      summary: Object.fromEntries(
        summary.map(({ label, text }) => [label.toLowerCase(), text]),
      ),
      findings: findings.map(toDocument),
      mended: mended.map(({ check, did, failure }) => ({
        check,
        did: did ?? null,
        failure: failure ?? null,
      })),
      unchecked: unchecked.map(({ check, reason }) => ({ check, reason })),
    },
    text: (style) =>
      [
        formatSummary(summary, style),
        ...mended.map((one) => formatMended(one, style)),
        ...findings.map((finding) => formatFinding(finding, style)),
        ...formatUnchecked(unchecked),
        formatVerdict(
          { errors, warnings, isWhole: unchecked.length === 0 },
          style,
        ),
      ].join("\n\n"),
    exitCode: isWell ? 0 : 1,
  };
}

function toDocument(
  { check, severity, message, consequence, command, mend }: Found,
): Record<string, unknown> {
  return {
    check,
    severity,
    message,
    consequence,
    command: command ?? null,
    fixable: mend !== undefined,
  };
}

function formatSummary(summary: readonly Line[], style: Style): string {
  const width = Math.max(...summary.map(({ label }) => label.length)) + 2;
  return summary.map(({ label, text }) =>
    style.bold(label.padEnd(width)) + showControls(text)
  ).join("\n");
}

const INDENT = "    ";

function formatFinding(
  { check, severity, message, consequence, command, mend }: Found,
  style: Style,
): string {
  const mark = severity === "error"
    ? style.red
    : severity === "warning"
    ? style.yellow
    : style.bold;
  const hint = mend === undefined ? "" : "  (or: cni doctor --fix)";
  return [
    `${mark(severity)} ${style.bold(check)}: ${showControls(message)}`,
    `${INDENT}so: ${showControls(consequence)}`,
    ...command === undefined
      ? []
      : [`${INDENT}run: ${showControls(command)}${hint}`],
  ].join("\n");
}

function formatMended(
  { check, did, failure }: Mended,
  style: Style,
): string {
  return failure === undefined
    ? `${style.green("mended")} ${style.bold(check)}: ${
      showControls(did ?? "")
    }`
    : `${style.red("not mended")} ${style.bold(check)}: ${
      showControls(failure)
    }`;
}

/** Formats the checks that could not run, by reason. */
function formatUnchecked(unchecked: readonly Unchecked[]): string[] {
  const byReason = Map.groupBy(
    unchecked,
    ({ reason, isDenied }) => isDenied ? "run it as root" : reason,
  );
  return [...byReason].map(([reason, some]) =>
    `Not checked: ${some.map(({ check }) => check).join(", ")}; ` +
    showControls(reason)
  );
}

function formatVerdict(
  { errors, warnings, isWhole }: {
    readonly errors: number;
    readonly warnings: number;
    readonly isWhole: boolean;
  },
  style: Style,
): string {
  if (errors + warnings === 0) {
    return isWhole
      ? style.green("Nothing is wrong")
      : style.yellow("Nothing is wrong in what was checked");
  }
  const plural = (count: number, word: string): string =>
    `${count} ${word}${count === 1 ? "" : "s"}`;
  const text = [
    ...errors === 0 ? [] : [plural(errors, "error")],
    ...warnings === 0 ? [] : [plural(warnings, "warning")],
  ].join(", ");
  return errors === 0 ? style.yellow(text) : style.red(text);
}
