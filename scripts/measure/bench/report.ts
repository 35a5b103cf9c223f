/**
 * The document of a run, as `bench.json` has it, and its tables, for terminals and in
 * Markdown.
 *
 * @module
 */

import { explainChain } from "./plan.ts";
import type { ChainName } from "./route.ts";
import type { Subject } from "./subject.ts";
import type { Row, Spread } from "./summary.ts";

/** Facts about a machine. */
interface Machine {
  /** When, UTC. */
  readonly date: string;
  /** The kernel's version. */
  readonly kernel: string;
  readonly architecture: string;
  readonly cpu: string;
  readonly cpus: number;
  readonly memoryMib: number;
  /** Load average of the last minute, when it began. */
  readonly load: number;
  readonly deno: string;
  /** The executables' versions by contestant. */
  readonly versions: Readonly<Record<string, string>>;
}

/** Describes this machine and the measured executables. */
export function describeMachine(subjects: readonly Subject[]): Machine {
  return {
    date: new Date().toISOString().slice(0, 16) + "Z",
    kernel: Deno.osRelease(),
    architecture: Deno.build.arch,
    cpu: findCpuModel(Deno.readTextFileSync("/proc/cpuinfo")),
    cpus: navigator.hardwareConcurrency,
    memoryMib: Math.round(Deno.systemMemoryInfo().total / 2 ** 20),
    load: Deno.loadavg()[0] ?? 0,
    deno: Deno.version.deno,
    versions: Object.fromEntries(
      subjects.map(({ name, bin }) => [name, findVersion(bin)]),
    ),
  };
}

/**
 * Finds the processor's name; arm64 has none there, but numbers.
 *
 * @param text Of /proc/cpuinfo
 */
function findCpuModel(text: string): string {
  const find = (key: string): string | undefined =>
    new RegExp(`^${key}\\s*: (.*)$`, "m").exec(text)?.[1];
  const implementer = find("CPU implementer"), part = find("CPU part");
  return find("model name") ??
    (part ? `implementer ${implementer}, part ${part}` : "unknown");
}

/** Asks an executable for its version, and dpkg if that says it does not know. */
function findVersion(bin: string): string {
  const file = `${bin}/host-local`;
  const said = run(file);
  const [, version = "unknown"] = / (?:version )?(\S+)$/m.exec(said) ?? [];
  if (version !== "unknown") return version;
  const [owner] = run("dpkg", "-S", file).split(":");
  const format = "--showformat=${Package} ${Version}";
  return owner ? run("dpkg-query", "--show", format, owner) : version;
}

/** Returns the output of a program, stdout first; "" if it is not installed. */
function run(command: string, ...args: string[]): string {
  try {
    const { stdout, stderr, success } = new Deno.Command(command, {
      args,
      clearEnv: true,
      env: { PATH: Deno.env.get("PATH") ?? "" },
      stdin: "null",
    }).outputSync();
    const decoder = new TextDecoder();
    return success ? decoder.decode(stdout) + decoder.decode(stderr) : "";
  } catch {
    return "";
  }
}

/** The results of a run. */
export interface Report {
  readonly machine: Machine;
  /** Whether a few rounds of the smaller cells were enough. */
  readonly quick: boolean;
  readonly filter: string;
  /** Skipped cells, and why. */
  readonly notes: readonly string[];
  readonly rows: readonly Row[];
}

/** Groups the rows by cell, in their order. */
function groupByCell(
  rows: readonly Row[],
): [cell: string, rows: Row[]][] {
  return [...Map.groupBy(rows, ({ cell }) => cell)];
}

/** A column: its heading, alignment and text ("" if empty). */
interface Column {
  readonly heading: string;
  readonly isNumber: boolean;
  readonly cell: (row: Row) => string;
}

function text(heading: string, cell: Column["cell"]): Column {
  return { heading, isNumber: false, cell };
}

function number(
  heading: string,
  format: (value: number) => string,
  find: (row: Row) => number | undefined,
): Column {
  const cell: Column["cell"] = (row) => {
    const value = find(row);
    return value === undefined ? "" : format(value);
  };
  return { heading, isNumber: true, cell };
}

/** Chooses the columns in which there is anything. */
function chooseColumns(rows: readonly Row[]): Column[] {
  const [beside] = rows.flatMap(({ ratio }) => ratio?.to ?? []);
  const columns = [
    text("step", ({ step }) => step),
    text("who", ({ who }) => who),
    number("wall ms", formatMs, ({ wallMs }) => wallMs.median),
    text("quartiles", ({ wallMs }) => formatQuartiles(wallMs, formatMs)),
    number("CPU ms", formatMs, ({ cpuMs }) => cpuMs.median),
    number("per second", formatRate, ({ perSecond }) => perSecond),
    number(`wall/${beside}`, formatRatio, ({ ratio }) => ratio?.wallMs.median),
    text(
      "quartiles",
      ({ ratio }) =>
        ratio === undefined ? "" : formatQuartiles(ratio.wallMs, formatRatio),
    ),
    number(`CPU/${beside}`, formatRatio, ({ ratio }) => ratio?.cpuMs.median),
    number("peak MiB", formatMib, ({ peakKib }) => peakKib),
    number("execs", String, ({ execs }) => execs),
    number("syscalls", String, ({ syscalls }) => syscalls),
  ];
  return columns.filter(({ cell }) => rows.some((row) => cell(row) !== ""));
}

/** Formats milliseconds, to three digits or so. */
export function formatMs(value: number): string {
  return value.toFixed(value < 10 ? 2 : 1);
}

function formatRatio(value: number): string {
  return value.toFixed(2);
}

function formatRate(value: number): string {
  return value.toFixed(1);
}

function formatMib(kib: number): string {
  return (kib / 1024).toFixed(0);
}

function formatQuartiles(
  { q1, q3 }: Spread,
  format: (value: number) => string,
): string {
  return `${format(q1)}-${format(q3)}`;
}

/** Formats a table for a terminal, without a newline at its end. */
export function formatTable(rows: readonly Row[]): string {
  const columns = chooseColumns(rows).map(({ heading, isNumber, cell }) => {
    const texts = [heading, ...rows.map(cell)];
    const width = Math.max(...texts.map(({ length }) => length));
    return texts.map((text) =>
      isNumber ? text.padStart(width) : text.padEnd(width)
    );
  });
  return Array.from(
    { length: rows.length + 1 },
    (_, line) => columns.map((texts) => texts[line]).join("  ").trimEnd(),
  ).join("\n");
}

/** Formats a table in Markdown, without a newline at its end. */
function formatMarkdownTable(rows: readonly Row[]): string {
  const columns = chooseColumns(rows);
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [
    line(columns.map(({ heading }) => heading)),
    line(columns.map(({ isNumber }) => isNumber ? "---:" : "---")),
    ...rows.map((row) => line(columns.map(({ cell }) => cell(row)))),
  ].join("\n");
}

/** Describes a machine in lines. */
export function describeLines(machine: Machine): string[] {
  const { date, kernel, architecture, cpu, cpus, memoryMib } = machine;
  const versions = Object.entries(machine.versions)
    .map(([who, version]) => `${who}: ${version}`);
  return [
    `${date}, Linux ${kernel} ${architecture}`,
    `${cpus} processors (${cpu}), ${memoryMib} MiB, load ${
      machine.load.toFixed(1)
    }`,
    [...versions, `deno: ${machine.deno}`].join(", "),
  ];
}

/** Names a cell, with what its chain consists of. */
function explainCell(cell: string, [row]: readonly Row[]): string {
  const { chain } = row ?? {};
  return chain === undefined
    ? cell
    : cell.replace(chain, explainChain(chain as ChainName));
}

/** Formats the results for a terminal, without a newline at their end. */
export function formatReport({ machine, rows, notes }: Report): string {
  const tables = groupByCell(rows).map(([cell, rows]) =>
    `${explainCell(cell, rows)}\n${formatTable(rows).replace(/^/gm, "  ")}`
  );
  const blocks = [describeLines(machine).join("\n"), ...tables];
  return [...blocks, notes.join("\n")].join("\n\n").trimEnd();
}

/** Formats the results as a Markdown document. */
export function formatMarkdown({ machine, rows, notes }: Report): string {
  const tables = groupByCell(rows).map(([cell, rows]) =>
    `## ${explainCell(cell, rows)}\n\n${formatMarkdownTable(rows)}`
  );
  const list = [...describeLines(machine), ...notes]
    .map((line) => `- ${line}`).join("\n");
  return ["# What containers cost", list, ...tables].join("\n\n") + "\n";
}
