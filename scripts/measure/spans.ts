/**
 * Draws the picture of docs/monitoring.md: the trace of an attachment by
 * the node daemon, as a collector of OpenTelemetry gets it.
 *
 *     CNI_BIN=$PWD/dist/bin deno run -A scripts/measure/spans.ts docs/images/spans.svg
 *
 * It needs root, and works in namespaces that it removes.
 *
 * @module
 */

import {
  CHARACTER_WIDTH,
  chooseTicks,
  element,
  escapeXml,
  line,
  picture,
  textAt,
} from "../../base/command_line/svg.ts";
import { shorten } from "../../base/command_line/table.ts";
import type { Kind } from "../../cli/trace/record.ts";
import { STYLE } from "../../cli/trace/svg.ts";
import { formatMs } from "../../cli/trace/timeline.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { BIN } from "../../tests/_harness/executables.ts";
import { NodeDaemon } from "../../tests/_harness/node_daemon.ts";
import {
  type Collected,
  OtlpCollector,
} from "../../tests/_harness/otlp_collector.ts";

const WIDTH = 1200, LEFT = 330, RIGHT = 20, ROW = 17, BAR = 13, TOP = 62;
const PLOT = WIDTH - LEFT - RIGHT;
/** Narrower bars could not be seen. */
const NARROWEST = 1.5;
const INDENT = 12;

/** A span, and how deep it is below the first one. */
interface Row extends Collected {
  readonly depth: number;
}

/** How often the container is attached: code that has run before is faster. */
const ROUNDS = 20;

/** Attaches a container as a runtime does, and returns the spans of the fastest time. */
async function collect(): Promise<Collected[]> {
  using hosts = TestHosts.create();
  await using collector = new OtlpCollector(hosts.host);
  await using daemon = await NodeDaemon.start(hosts, { env: collector.env });
  const network = { cniVersion: "1.1.0", name: "pods" };
  const ipam = hosts.hostLocal("10.1.0.0/24");
  const masquerade = { ipMasq: true, ipMasqBackend: "nftables" };
  const ptp = { ...network, type: "ptp", ipam, ...masquerade };
  const rates = { ingressRate: 1e9, ingressBurst: 8e6 };
  const bandwidth = { ...network, type: "bandwidth", ...rates };
  const call = async (
    config: { readonly type: string },
    command: string,
    env: Record<string, string> = {},
  ): Promise<string> => {
    const { code, stdout, stderr } = await daemon
      .call(config.type, command, { config, env }).output;
    if (code !== 0) throw new Error(stdout + stderr);
    return stdout;
  };
  const traces: Collected[][] = [];
  for (let round = 1; round <= ROUNDS; round++) {
    const traceId = String(round).padStart(32, "a"), spanId = "b".repeat(16);
    const env = { TRACEPARENT: `00-${traceId}-${spanId}-01` };
    const startMs = performance.timeOrigin + performance.now();
    const prevResult = JSON.parse(await call(ptp, "ADD", env));
    await call({ ...bandwidth, prevResult } as typeof bandwidth, "ADD", env);
    const endMs = performance.timeOrigin + performance.now();
    const runtime = {
      ...{ traceId, spanId, startMs, endMs, kind: 2, service: "runtime" },
      name: "runtime: attach a pod",
      attributes: {},
    };
    await eventually("both calls are there", () => {
      const own = collector.spans.filter((span) => span.traceId === traceId);
      return own.filter(({ name }) => name === "CNI ADD").length === 2;
    });
    traces.push([
      runtime,
      ...collector.spans.filter((span) => span.traceId === traceId),
    ]);
    await call(bandwidth, "DEL");
    await call(ptp, "DEL");
  }
  if (collector.complaints.length > 0) throw new Error(collector.complaints[0]);
  return traces.toSorted((left, right) =>
    lengthOf(left) - lengthOf(right)
  )[0] ??
    [];
}

function lengthOf([first]: readonly Collected[]): number {
  return first === undefined ? 0 : first.endMs - first.startMs;
}

/** Puts spans behind those that they are part of, in order of time. */
function toRows(
  spans: readonly Collected[],
  parentId: string | undefined,
  depth = 0,
): Row[] {
  const known = new Set(spans.map(({ spanId }) => spanId));
  return spans
    .filter(({ parentSpanId = "" }) =>
      parentId === undefined
        ? !known.has(parentSpanId)
        : parentSpanId === parentId
    )
    .toSorted((left, right) => left.startMs - right.startMs)
    .flatMap((span) => [
      { ...span, depth },
      ...toRows(spans, span.spanId, depth + 1),
    ]);
}

function kindOf({ name, kind }: Collected): Kind {
  if (/^(lock|turn|link deletion)$/.test(name)) return "wait";
  if (/^(RTM_|requests)/.test(name)) return "netlink";
  if (/^(NF|transaction)/.test(name)) return "nftables";
  if (kind === 3) return "process";
  return kind === 2 ? "call" : "plugin";
}

function draw(rows: readonly Row[]): string {
  const startMs = Math.min(...rows.map((row) => row.startMs));
  const totalMs = Math.max(...rows.map((row) => row.endMs)) - startMs;
  const ticks = chooseTicks(totalMs);
  const scale = PLOT / (ticks.at(-1) ?? 1);
  const bottom = TOP + rows.length * ROW;
  const marks = ticks.flatMap((tick) => {
    const x = LEFT + tick * scale;
    const middle = { "text-anchor": "middle", class: "dim" };
    return [
      line([x, TOP - 4], [x, bottom], { class: "grid" }),
      textAt([x, TOP - 10], `${tick}`, middle),
    ];
  });
  const title = "One trace, from the runtime to each request to the kernel";
  const head = `${title}: ${rows.length} spans, ${formatMs(totalMs)} ms`;
  return picture({ width: WIDTH, height: bottom + 12, title, style: STYLE }, [
    textAt([12, 22], head, { class: "name" }),
    textAt([12, TOP - 10], "ms", { class: "dim" }),
    ...marks,
    ...rows.map((row, at) => drawRow(row, TOP + at * ROW, { startMs, scale })),
  ]);
}

function drawRow(
  row: Row,
  y: number,
  { startMs, scale }: { readonly startMs: number; readonly scale: number },
): string {
  const { name, depth, attributes } = row;
  const tookMs = row.endMs - row.startMs;
  const object = (attributes["cni.object"] ?? attributes["cni.plugin"] ?? "")
    .replaceAll(/\/\S+\//g, "");
  const indent = 12 + depth * INDENT;
  const room = Math.floor((LEFT - 12 - indent) / CHARACTER_WIDTH);
  const x = LEFT + (row.startMs - startMs) * scale;
  const width = Math.max(NARROWEST, tookMs * scale);
  const tip = `${name} ${object}: ${formatMs(tookMs)} ms`;
  const box = { x, y: y + 2, width, height: BAR, rx: 2, class: kindOf(row) };
  const label = `${formatMs(tookMs)} ${object}`;
  // Behind the bar, or before it where there is no room.
  const isBefore = x + width > LEFT + PLOT * 0.6;
  const at = isBefore ? x - 4 : x + width + 4;
  const space = isBefore ? x - LEFT : WIDTH - RIGHT - at;
  return element(
    "g",
    {},
    element("title", {}, escapeXml(tip)) +
      textAt([indent, y + BAR], shorten(name, room)) +
      element("rect", box) +
      textAt(
        [at, y + BAR],
        shorten(label, Math.floor(space / CHARACTER_WIDTH)),
        { class: "dim", "text-anchor": isBefore ? "end" : "start" },
      ),
  );
}

if (import.meta.main) {
  const [file] = Deno.args;
  if (file === undefined || BIN === "") {
    throw new Error("give the file, and CNI_BIN in the environment");
  }
  await Deno.writeTextFile(file, draw(toRows(await collect(), undefined)));
}
