/**
 * `cni doctor`: finds what is wrong with the node, and fixes what is safe to fix.
 *
 * @module
 */

import { deadline, JoinedSignal, pause } from "../../base/deadline.ts";
import { type Output, readTimeLimit } from "../../base/command_line/command.ts";
import { refuse } from "../../base/command_line/usage_error.ts";
import { showControls, type Style } from "../../base/command_line/style.ts";
import { wrap } from "../../base/command_line/table.ts";
import type { CniCall } from "../flags.ts";
import {
  collapse,
  type Collapsed,
  diagnose,
  type DiagnosedFinding,
  type Diagnosis,
  fixAll,
  type Fixed,
  type Unchecked,
} from "./diagnose.ts";
import { NodeReader, type Replaced } from "../node/node_reader.ts";
import { addressOf, SITE } from "./finding.ts";
import {
  hang,
  INDENT,
  labelled,
  labelledCommand,
  LEAST_ROOM,
} from "../probe/labelled.ts";
import { type Line, summarize } from "./summary.ts";
import { readDirectories, toolCommand } from "../node/network.ts";

/** Runs all checks, or the mode that the flags select. */
export async function doctor(
  call: CniCall,
  replaced: Replaced = {},
): Promise<Output> {
  const { flags } = call;
  const modes = [flags.pod !== undefined, flags.fix, flags.wait, flags.try];
  if (modes.filter(Boolean).length > 1) {
    throw refuse(
      call.command,
      "use only one of --pod, --fix, --wait and --try",
    );
  }
  if ((flags.to ?? flags.from) !== undefined && flags.pod === undefined) {
    throw refuse(call.command, "--to and --from need --pod");
  }
  if (flags.strict && (flags.pod !== undefined || flags.try)) {
    throw refuse(call.command, "--pod and --try have no warnings for --strict");
  }
  if (flags.svg !== undefined && !flags.try) {
    throw refuse(call.command, "--svg draws what --try finds");
  }
  if (flags.try) {
    const { tryNetworks } = await import("./try/command.ts");
    return await tryNetworks(call, replaced);
  }
  if (flags.pod !== undefined) {
    const { probePod } = await import("../probe/pod.ts");
    using node = new NodeReader(readerOptions(call, replaced));
    return await probePod(node, call);
  }
  if (flags.wait !== undefined) return await waitUntilWell(call, replaced);
  return (await checkNode(call, replaced)).output;
}

function readerOptions(
  call: CniCall,
  replaced: Replaced,
): ConstructorParameters<typeof NodeReader>[0] {
  const { env, signal } = call;
  return { directories: readDirectories(call), env, signal, ...replaced };
}

/** A run of the checks. */
interface Checked {
  readonly output: Output;
  /** Whether nothing is wrong, apart from checks that this user is not permitted to run. */
  readonly isWell: boolean;
}

async function checkNode(call: CniCall, replaced: Replaced): Promise<Checked> {
  const { signal, flags } = call;
  const options = readerOptions(call, replaced);
  using node = new NodeReader(options);
  call.onProgress?.("Checking the node");
  const diagnosis = await diagnose(node);
  const fixed = flags.fix ? await fixAll(diagnosis.findings, signal) : [];
  if (fixed.length === 0) {
    return report(call, diagnosis, fixed, await summarize(node));
  }
  // A new reader: the first one keeps what it has read.
  using again = new NodeReader(options);
  return report(call, await diagnose(again), fixed, await summarize(again));
}

/** Time between two runs of the checks, in ms. */
const BETWEEN_RUNS_MS = 2000;

/** Runs the checks until nothing is wrong or the time limit expires. */
async function waitUntilWell(
  call: CniCall,
  replaced: Replaced,
): Promise<Output> {
  // 0 stands for no limit.
  const waitMs = readTimeLimit(call, "wait") || Infinity;
  const endMs = performance.now() + waitMs;
  for (;;) {
    // The time limit applies to each run of the checks.
    using limit = new JoinedSignal(
      call.timeoutMs === 0 ? undefined : deadline(call.timeoutMs),
      call.interrupt,
    );
    const limited = { ...call, signal: limit.signal };
    const { output, isWell } = await checkNode(limited, replaced);
    const leftMs = endMs - performance.now();
    if (isWell || leftMs <= 0) return output;
    if (call.interrupt.aborted) return output;
    call.onProgress?.("Waiting until nothing is wrong");
    await pause(Math.min(BETWEEN_RUNS_MS, leftMs), call.interrupt);
  }
}

/** Returns the address of a code's section in the documentation. */
function urlOf(code: string): string {
  return addressOf("findings", code.toLowerCase());
}

function report(
  call: CniCall,
  { findings, unchecked }: Diagnosis,
  fixed: readonly Fixed[],
  summary: readonly Line[],
): Checked {
  const count = (severity: DiagnosedFinding["severity"]): number =>
    findings.filter((finding) => finding.severity === severity).length;
  const [errors, warnings] = [count("error"), count("warning")];
  const { flags } = call;
  const fixCommand = toolCommand(readDirectories(call), "doctor --fix");
  const isWrong = errors > 0 || flags.strict === true && warnings > 0 ||
    fixed.some(({ failure }) => failure !== undefined);
  const isWhole = unchecked.length === 0;
  const shown = collapse(findings);
  const output: Output = {
    json: {
      version: JSON_VERSION,
      ok: !isWrong && isWhole,
      errors,
      warnings,
      summary: Object.fromEntries(
        summary.map(({ label, text }) => [label.toLowerCase(), text]),
      ),
      findings: shown.map(toDocument),
      // Version 1 of the document has this name.
      mended: fixed.map(({ check, did, failure }) => ({
        check,
        did: did ?? null,
        failure: failure ?? null,
      })),
      unchecked: unchecked.map(({ check, reason }) => ({ check, reason })),
    },
    text: (style) =>
      [
        formatSummary(summary, style),
        ...fixed.map((one) => formatFixed(one, style)),
        ...shown.map((finding) => formatFinding(finding, fixCommand, style)),
        ...formatUnchecked(unchecked, style),
        formatVerdict({ errors, warnings, isWhole }, style),
      ].join("\n\n"),
    exitCode: isWrong ? EXIT.wrong : isWhole ? EXIT.well : EXIT.unchecked,
  };
  const isWell = !isWrong && unchecked.every(({ isDenied }) => isDenied);
  return { output, isWell };
}

/** Version of the document: it grows if something is removed or changes its meaning. */
const JSON_VERSION = 1;

/** Exit codes, for scripts. */
const EXIT = {
  /** Everything was checked, and nothing is wrong. */
  well: 0,
  /** Something is wrong. */
  wrong: 1,
  /** Nothing wrong was found, but something could not be checked. */
  unchecked: 3,
} as const;

function toDocument(
  { check, code, severity, message, effect, ...more }: Collapsed,
): Record<string, unknown> {
  const { command, advice, look, fix, count, also } = more;
  return {
    check,
    code,
    severity,
    message,
    consequence: effect,
    command: command ?? look ?? null,
    fix: command ?? null,
    advice: advice ?? null,
    look: look ?? null,
    fixable: fix !== undefined,
    count,
    also: also.map(({ message, command }) => ({
      message,
      fix: command ?? null,
    })),
    url: urlOf(code),
  };
}

function formatSummary(summary: readonly Line[], style: Style): string {
  const width = Math.max(...summary.map(({ label }) => label.length)) + 2;
  return summary.map(({ label, text }) =>
    hang(style.bold(label.padEnd(width)), width, text, style)
  ).join("\n");
}

/** How many of the combined findings are shown. */
const MOST_ALSO = 2;

function formatFinding(
  { check, code, severity, message, effect, ...more }: Collapsed,
  fixCommand: string,
  style: Style,
): string {
  const { command, advice, look, fix, count, also } = more;
  const mark = severity === "error"
    ? style.red
    : severity === "warning"
    ? style.yellow
    : style.bold;
  const times = count > 1 ? ` (${count} times)` : "";
  const head = `${mark(severity)} ${style.bold(`${code} ${check}`)}${times}: `;
  const plain = `${severity} ${code} ${check}${times}: `;
  const room = Math.max((style.width ?? Infinity) - INDENT, LEAST_ROOM);
  // The first line is shorter by its heading.
  const [first = "", ...rest] = wrap(plain + showControls(message), room)
    .map((line, at) => at === 0 ? line.slice(plain.length) : line);
  const hidden = also.length - MOST_ALSO;
  return [
    head + first,
    ...rest.map((line) => " ".repeat(INDENT) + line),
    ...also.slice(0, MOST_ALSO).flatMap(({ message }) =>
      labelled("also:", message, style)
    ),
    ...hidden > 0
      ? labelled("also:", `${hidden} more, which --json lists`, style)
      : [],
    ...labelled("so:", effect, style),
    ...labelledCommand("fix:", command),
    ...labelledCommand("or:", command && fix && fixCommand),
    ...command !== undefined && also.length > 0
      ? labelled("", "and so on for the others: --json lists each fix", style)
      : [],
    ...labelled(command === undefined ? "fix:" : "note:", advice, style),
    ...labelledCommand("look:", look),
    ...labelledCommand(
      "see:",
      `cni explain ${code}` + (SITE === undefined ? "" : `, ${urlOf(code)}`),
    ),
  ].join("\n");
}

function formatFixed(
  { check, did, failure }: Fixed,
  style: Style,
): string {
  return failure === undefined
    ? `${style.green("fixed")} ${style.bold(check)}: ${showControls(did ?? "")}`
    : `${style.red("not fixed")} ${style.bold(check)}: ${
      showControls(failure)
    }`;
}

/** Formats the checks that could not run, by reason. */
function formatUnchecked(
  unchecked: readonly Unchecked[],
  style: Style,
): string[] {
  const byReason = Map.groupBy(
    unchecked,
    ({ reason, isDenied }) => isDenied ? "run it as root" : reason,
  );
  return [...byReason].map(([reason, some]) =>
    hang(
      "Not checked: ",
      INDENT,
      `${some.map(({ check }) => check).join(", ")}; ${reason}`,
      style,
    )
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
      : style.yellow("The checks that ran found no problem");
  }
  const plural = (count: number, word: string): string =>
    `${count} ${word}${count === 1 ? "" : "s"}`;
  const text = [
    ...errors === 0 ? [] : [plural(errors, "error")],
    ...warnings === 0 ? [] : [plural(warnings, "warning")],
  ].join(", ");
  return errors === 0 ? style.yellow(text) : style.red(text);
}
