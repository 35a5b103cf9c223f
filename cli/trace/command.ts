/**
 * `cni trace`: what ADD does, and how long each step takes.
 *
 * @module
 */

import { NO_DAEMON } from "../../daemon/wire/daemon_socket.ts";
import { withIoFailure } from "../../base/files/io.ts";
import { registry } from "../../plugins/registry.ts";
import { parseTrace } from "./record.ts";
import { startTracing } from "./start.ts";
import { toFailureDocument } from "../../base/command_line/failure.ts";
import type { Output } from "../../base/command_line/command.ts";
import { whileSignalsKill } from "../../base/command_line/interrupt.ts";
import type { Style } from "../../base/command_line/style.ts";
import { NetNs } from "../../ffi/netns.ts";
import {
  type Column,
  formatTable,
  wrap,
} from "../../base/command_line/table.ts";
import { UsageError } from "../../base/command_line/usage_error.ts";
import type { CniCall } from "../flags.ts";
import {
  formatMs,
  KIND_NAMES,
  lengthOf,
  sumUp,
  toChromeTrace,
  toSteps,
  type TraceStep,
} from "./timeline.ts";
import { drawTrace } from "./svg.ts";
import { getNetwork, readDirectories } from "../node/network.ts";
import { writeTarget } from "../written_file.ts";
import { add, refuseMissing } from "../add/command.ts";
import { del } from "../del/command.ts";

/** A trace and its outcome. */
interface Traced {
  readonly title: string;
  readonly text: string;
  /** The result of ADD. */
  readonly result?: unknown;
  readonly failure?: unknown;
}

/** Traces ADD, or reads a trace, and shows it in all requested forms. */
export async function trace(call: CniCall): Promise<Output> {
  const { from, svg, chrome } = call.flags;
  const { title, text, result, failure } = from === undefined
    ? await run(call)
    : readTrace(call, from);
  const steps = toSteps(parseTrace(text));
  const written = [
    ...svg === undefined ? [] : [write(svg, drawTrace(title, steps))],
    ...chrome === undefined
      ? []
      : [write(chrome, JSON.stringify(toChromeTrace(steps)) + "\n")],
  ];
  if (failure !== undefined && failure instanceof Error) {
    call.showFailure(failure);
  }
  return {
    json: {
      ...result !== undefined && { result },
      ...failure !== undefined && { error: toFailureDocument(failure) },
      steps,
    },
    text: (style) => formatSteps(steps, style, call),
    note: (style) =>
      [...written, ...summarize(steps, style), ...tellOfHidden(steps, call)]
        .join("\n"),
    exitCode: failure === undefined ? 0 : 1,
  };
}

function write(path: string, text: string): string {
  writeTarget(path, text);
  return `Wrote ${path}`;
}

function readTrace({ args, command }: CniCall, path: string): Traced {
  if (args.length > 0) {
    throw new UsageError(
      `Cannot run "${command}": --from shows a trace; do not name a network with it`,
    );
  }
  const text = withIoFailure(
    `read "${path}"`,
    () => whileSignalsKill(() => Deno.readTextFileSync(path)),
  );
  if (parseTrace(text).length > 0) return { title: path, text };
  throw new Error(`"${path}" contains no records of CNI_TRACE`);
}

/** Runs ADD, and DEL if requested, as `cni add` and `cni del` do. */
async function run(call: CniCall): Promise<Traced> {
  const [network, netns] = call.args;
  if (network === undefined) {
    throw new UsageError(
      `Cannot run "${call.command}": name a network, or use --from`,
    );
  }
  // A mistyped name is not a trace.
  const directories = readDirectories(call);
  getNetwork(directories, network);
  if (netns === undefined) return await runInThrowAway(network, call);
  refuseMissing(netns, directories);
  const path = await Deno.makeTempFile({ prefix: "cni-trace-" });
  try {
    // A daemon's steps are not in the trace.
    const env = { ...call.env, CNI_TRACE: path, [NO_DAEMON]: "1" };
    const inner = { ...call, env };
    const ended = await runTraced(inner, path);
    const text = await Deno.readTextFile(path);
    const commands = call.flags.del ? "ADD and DEL" : "ADD";
    return { ...ended, title: `${commands} of ${netns} to ${network}`, text };
  } finally {
    await Deno.remove(path);
  }
}

/** Runs ADD and DEL in a namespace that ends with the command. */
async function runInThrowAway(
  network: string,
  call: CniCall,
): Promise<Traced> {
  using netns = NetNs.create();
  const args = [network, netns.path];
  const flags = { ...call.flags, del: true };
  const traced = await run({ ...call, args, flags });
  const title = `ADD and DEL of a temporary namespace to ${network}`;
  return { ...traced, title };
}

async function runTraced(
  call: CniCall,
  path: string,
): Promise<Pick<Traced, "result" | "failure">> {
  using _tracing = startTracing(path, registry);
  try {
    const { json: result } = await add(call);
    if (call.flags.del) await del(call);
    return { result };
  } catch (failure) {
    return { failure };
  }
}

function summarize(
  steps: readonly TraceStep[],
  { width = Infinity }: Style,
): string[] {
  const totals = sumUp(steps).map(({ kind, count, tookMs }) =>
    `${KIND_NAMES[kind]} ${formatMs(tookMs)} ms (${count})`
  );
  return wrap(`${formatMs(lengthOf(steps))} ms: ${totals.join(", ")}`, width);
}

/** Shorter file accesses and system calls are left out of the table. */
const NOTABLE_MS = 0.1;

function isNotable({ kind, tookMs }: TraceStep): boolean {
  return !["file", "system"].includes(kind) || tookMs >= NOTABLE_MS;
}

function tellOfHidden(
  steps: readonly TraceStep[],
  { flags }: CniCall,
): string[] {
  const hidden = steps.filter((step) => !isNotable(step)).length;
  return flags.wide || hidden === 0 ? [] : [
    `--wide also shows ${hidden} short file ` +
    (hidden === 1 ? "access or system call" : "accesses and system calls"),
  ];
}

function formatSteps(
  steps: readonly TraceStep[],
  style: Style,
  { flags }: CniCall,
): string {
  const shown = flags.wide ? steps : steps.filter(isNotable);
  const isOne = new Set(steps.map(({ pid }) => pid)).size <= 1;
  const { width, ...wide } = style;
  const isWide = flags.wide || width === undefined;
  const columns = [...COLUMNS, ...isWide ? [WHOLE] : [OBJECT, ERROR]]
    .filter(({ heading }) => heading !== "PID" || !isOne);
  return formatTable(columns, shown, isWide ? wide : style);
}

/** Leaves out the request's name and object, which other columns show. */
function stripAround(error: string, name: string, object: string): string {
  const prefix = [`${name} ${object}: `, `${name}: `]
    .find((one) => error.startsWith(one)) ?? "";
  const suffix = `: "${object}"`;
  return error.slice(
    prefix.length,
    error.endsWith(suffix) ? -suffix.length : undefined,
  );
}

const COLUMNS: readonly Column<TraceStep>[] = [
  { heading: "AT MS", cell: ({ atMs }) => formatMs(atMs).padStart(7) },
  { heading: "TOOK", cell: ({ tookMs }) => formatMs(tookMs).padStart(6) },
  { heading: "PID", cell: ({ pid }) => `${pid}` },
  {
    heading: "STEP",
    cell: ({ name, depth }) => `${"  ".repeat(depth)}${name}`,
    mark: ({ kind }, style) =>
      kind === "plugin" || kind === "call" ? style.bold : undefined,
    narrow: "cut",
  },
];

const OBJECT: Column<TraceStep> = {
  heading: "OBJECT",
  cell: ({ object }) => object,
  narrow: "middle",
};

const ERROR: Column<TraceStep> = {
  heading: "ERROR",
  cell: ({ name, object, error }) =>
    error === undefined ? "" : `✗ ${stripAround(error, name, object)}`,
  mark: ({ error }, style) => error === undefined ? undefined : style.red,
  narrow: "below",
};

/** Both, where there is room. */
const WHOLE: Column<TraceStep> = {
  ...ERROR,
  heading: "OBJECT",
  cell: (step) => `${step.object} ${ERROR.cell(step)}`.trim(),
};
