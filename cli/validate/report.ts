/**
 * Reports of a validation, for people and for CI systems.
 *
 * @module
 */

import { PLUGINS_VERSION } from "../../base/process/build_identity.ts";
import { showControls, type Style } from "../../base/command_line/style.ts";
import { wrap } from "../../base/command_line/table.ts";
import {
  type Severity,
  WARNING_CODES,
  type WarningCode,
} from "../../metadata/problem.ts";

/** A problem as reported. */
export interface ReportedProblem {
  readonly severity: Severity;
  /** Such as `plugins[0].ipam.subnet`; "" for the whole configuration. */
  readonly path: string;
  readonly message: string;
  /** What a warning is about; null for an error. */
  readonly code: WarningCode | null;
  readonly file: string;
  /** Starts at 1. */
  readonly line: number;
  /** Starts at 1; counts characters. */
  readonly column: number;
  /** The line's text. */
  readonly source: string;
  /** Whether nothing reads the key. */
  readonly isUnknownKey: boolean;
}

/** A configuration as reported. */
export interface ReportedConf {
  /** Its file, and the object inside it. */
  readonly label: string;
  /** "" if unknown. */
  readonly network: string;
  readonly cniVersion: string;
  readonly valid: boolean;
  readonly problems: readonly ReportedProblem[];
  readonly plugins: readonly string[];
  readonly capabilities: readonly string[];
  readonly notChecked: readonly string[];
}

/** Formats a report. */
export type Format = (confs: readonly ReportedConf[], style: Style) => string;

/** The formats by name. */
export const FORMATS: Readonly<Record<string, Format>> = {
  "text": formatText,
  "json": (confs) => JSON.stringify(toDocument(confs), null, 4),
  "github": (confs) => listProblems(confs).map(formatForGitHub).join("\n"),
  "sarif": (confs) => JSON.stringify(toSarif(listProblems(confs)), null, 4),
};

function listProblems(confs: readonly ReportedConf[]): ReportedProblem[] {
  return confs.flatMap(({ problems }) => problems);
}

/** Builds the document for `--json`. */
export function toDocument(confs: readonly ReportedConf[]): object {
  const problems = listProblems(confs);
  return {
    valid: confs.length > 0 && confs.every(({ valid }) => valid),
    errors: count(problems, "error"),
    warnings: count(problems, "warning"),
    problems: problems.map(({ source: _, isUnknownKey: __, ...problem }) =>
      problem
    ),
    configurations: confs.map(({ label, problems, ...conf }) => ({
      file: label,
      ...conf,
      unknownKeys: problems.filter(({ isUnknownKey }) => isUnknownKey)
        .map(({ path }) => path),
    })),
  };
}

function count(problems: readonly ReportedProblem[], sort: Severity): number {
  return problems.filter(({ severity }) => severity === sort).length;
}

function formatText(confs: readonly ReportedConf[], style: Style): string {
  const problems = listProblems(confs);
  const isSingle = confs.length === 1;
  const sum = [
    formatCount(count(problems, "error"), "error"),
    formatCount(count(problems, "warning"), "warning"),
  ].filter((part) => part !== "").join(", ");
  const files = isSingle ? "" : `${confs.length} configurations: `;
  return [
    ...confs.flatMap((conf) => [
      ...formatProblems(conf.problems, style),
      (isSingle ? "" : `${showControls(conf.label)}: `) +
      formatVerdict(conf, style),
    ]),
    ...sum === "" && confs.length <= 1 ? [] : [files + (sum || "no problems")],
  ].join("\n");
}

function formatCount(number: number, noun: string): string {
  if (number === 0) return "";
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

function formatProblems(
  problems: readonly ReportedProblem[],
  style: Style,
): string[] {
  const places = problems.map(({ line, column }) => `${line}:${column}`);
  const width = Math.max(0, ...places.map(({ length }) => length));
  return problems.flatMap((problem, index) => {
    const { severity, file, line, path, message, code } = problem;
    const mark = severity === "error" ? style.red : style.yellow;
    const where = path === "" ? "" : `${path}: `;
    const at = places[index] ?? "";
    const gap = " ".repeat(width - at.length + 1);
    const start = showControls(`${file}:${at}`) + gap;
    const word = severity.padEnd("warning".length);
    const about = code === null ? "" : ` [${code}]`;
    const text = `${start}${word} ${showControls(where + message)}${about}`;
    const lines = wrap(text, (style.width ?? Infinity) - 4)
      .map((line, index) => index === 0 ? line : `    ${line}`)
      // Wrapping counts characters, so the colour comes after it.
      .map((line) =>
        line.startsWith(start + word)
          ? start + mark(word) + line.slice(start.length + word.length)
          : line
      );
    return severity === "error"
      ? [...lines, `${String(line).padStart(5)} | ${cut(problem)}`]
      : lines;
  });
}

/** The most of a line that is shown, in characters. */
const SHOWN = 70;

/** Shows the part of a line where the problem is. */
function cut({ source, column }: ReportedProblem): string {
  const characters = [...source.replaceAll("\t", " ")];
  if (characters.length <= SHOWN) return showControls(characters.join(""));
  const from = Math.max(0, Math.min(column - 20, characters.length - SHOWN));
  const part = characters.slice(from, from + SHOWN).join("");
  const isEnd = from + SHOWN >= characters.length;
  return `${from > 0 ? "…" : ""}${showControls(part)}${isEnd ? "" : "…"}`;
}

function formatVerdict(conf: ReportedConf, style: Style): string {
  const { network, plugins, capabilities, notChecked } = conf;
  const name = network === "" ? "the configuration" : network;
  return `${showControls(name)} ${describeValidity(conf, style)}` +
    formatList(": ", plugins) +
    formatList("; declares ", capabilities) +
    formatList("; keys not checked: ", notChecked);
}

/** What is read without effect is not what was meant, so it is not just valid. */
function describeValidity(
  { valid, problems }: ReportedConf,
  style: Style,
): string {
  if (!valid) return `is ${style.red("not valid")}`;
  const unknown = problems.filter(({ isUnknownKey }) => isUnknownKey);
  if (unknown.length > 0) {
    const keys = formatCount(unknown.length, "key");
    return `has ${style.yellow(`${keys} that nothing reads`)}`;
  }
  return `is ${style.green("valid")}`;
}

function formatList(label: string, words: readonly string[]): string {
  return words.length === 0 ? "" : showControls(label + words.join(", "));
}

/** Source: GitHub Actions, "Workflow commands", "Setting an error message". */
function formatForGitHub(problem: ReportedProblem): string {
  const { severity, file, line, column, path, message } = problem;
  const text = (path === "" ? "" : `${path}: `) + message;
  return `::${severity} file=${escape(file, /[%\r\n:,]/g)},line=${line},` +
    `col=${column}::${escape(text, /[%\r\n]/g)}`;
}

function escape(text: string, special: RegExp): string {
  return text.replace(
    special,
    (character) =>
      `%${character.charCodeAt(0).toString(16).padStart(2, "0").toUpperCase()}`,
  );
}

function encodePath(file: string): string {
  return file.split("/").map(encodeURIComponent).join("/");
}

/** Source: SARIF 2.1.0 (OASIS). */
function toSarif(problems: readonly ReportedProblem[]): object {
  return {
    $schema: "https://json.schemastore.org/sarif-2.1.0.json",
    version: "2.1.0",
    runs: [{
      tool: {
        driver: {
          name: "cni validate",
          version: PLUGINS_VERSION,
          rules: ["error", ...WARNING_CODES].map((id) => ({ id })),
        },
      },
      columnKind: "unicodeCodePoints",
      results: problems.map((problem) => {
        const { severity, file, line, column, path, message } = problem;
        const text = (path === "" ? "" : `${path}: `) + message;
        return {
          ruleId: problem.code ?? "error",
          level: severity,
          message: { text },
          locations: [{
            physicalLocation: {
              artifactLocation: { uri: encodePath(file) },
              region: { startLine: line, startColumn: column },
            },
          }],
        };
      }),
    }],
  };
}
