/**
 * The document of a run, as `bench.json` has it, and its tables.
 *
 * @module
 */

import { explainChain } from "./cells.ts";
import type { ChainName } from "./route.ts";
import type { Subject } from "./subject.ts";
import type { Row } from "./summary.ts";

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
  /** The executables' versions by candidate. */
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

/**
 * Asks an executable for its version; if it does not know, the Go module that
 * is recorded in it, and then dpkg.
 */
function findVersion(bin: string): string {
  const file = `${bin}/host-local`;
  const said = run(file);
  const [, version = "unknown"] = / (?:version )?(\S+)$/m.exec(said) ?? [];
  if (version !== "unknown") return version;
  const module = "containernetworking/plugins\tv[0-9.]*";
  const recorded = run("grep", "--text", "--only-matching", module, file);
  const [, built] = /\tv(\S+)/.exec(recorded) ?? [];
  if (built !== undefined) return built;
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
  readonly filter: string;
  /** Skipped cells, and why. */
  readonly notes: readonly string[];
  readonly rows: readonly Row[];
}

/** A column: its heading, whether it is of numbers, and its text ("" if empty). */
type Column = readonly [
  heading: string,
  isNumber: boolean,
  cell: (row: Row) => string,
];

/** Chooses the columns in which there is anything. */
function chooseColumns(rows: readonly Row[]): Column[] {
  const [to] = rows.flatMap(({ ratio }) => ratio?.to ?? []);
  const columns: Column[] = [
    ["step", false, ({ step }) => step],
    ["who", false, ({ who }) => who],
    ["wall ms", true, ({ wallMs }) => formatMs(wallMs.median)],
    [
      "quartiles",
      false,
      ({ wallMs: { q1, q3 } }) => `${formatMs(q1)}-${formatMs(q3)}`,
    ],
    ["CPU ms", true, ({ cpuMs }) => formatMs(cpuMs.median)],
    ["per second", true, ({ perSecond }) => perSecond?.toFixed(1) ?? ""],
    [`wall/${to}`, true, ({ ratio }) => ratio?.median.toFixed(2) ?? ""],
  ];
  return columns.filter(([, , cell]) => rows.some((row) => cell(row) !== ""));
}

/** Formats milliseconds, to three digits or so. */
function formatMs(value: number): string {
  return value.toFixed(value < 10 ? 2 : 1);
}

/** Formats a section with a table for each cell. */
function formatTables(rows: readonly Row[]): string {
  return [...Map.groupBy(rows, ({ cell }) => cell)].map(([cell, rows]) =>
    `## ${explainCell(cell, rows)}\n\n${formatTable(rows)}`
  ).join("\n\n");
}

/** Formats a table in Markdown, whose columns are aligned, without a newline at its end. */
function formatTable(rows: readonly Row[]): string {
  const columns = chooseColumns(rows).map(([heading, isNumber, cell]) => {
    const texts = [heading, ...rows.map(cell)];
    const width = Math.max(...texts.map(({ length }) => length));
    const rule = isNumber ? `${"-".repeat(width - 1)}:` : "-".repeat(width);
    const [head = "", ...others] = texts.map((text) =>
      isNumber ? text.padStart(width) : text.padEnd(width)
    );
    return [head, rule, ...others];
  });
  return Array.from(
    { length: rows.length + 2 },
    (_, line) => `| ${columns.map((texts) => texts[line]).join(" | ")} |`,
  ).join("\n");
}

/** Describes a machine in lines. */
function describeLines(machine: Machine): string[] {
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

/** Formats the results as a Markdown document. */
export function formatReport(report: Report): string {
  const { machine, rows, notes } = report;
  const list = [...describeLines(machine), ...notes]
    .map((line) => `- ${line}`).join("\n");
  return `# What containers cost\n\n${list}\n\n${formatTables(rows)}\n`;
}
