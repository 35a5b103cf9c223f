/**
 * Spans of the node daemon's calls.
 *
 * @module
 */

import type { Environment } from "../../base/process/environment.ts";
import type { LinkDeletion } from "../../cni/call/link_deletion.ts";
import { describeError } from "../../base/error.ts";
import type { PluginLookup } from "../../cni/invoke/in_process.ts";
import type { Log } from "../../base/log/log.ts";
import type { Plugin } from "../../cni/plugin.ts";
import type { EndedCall } from "../../daemon/server/call.ts";
import type { CallTrace } from "../../daemon/server/calls.ts";
import type { Gauge } from "../../daemon/server/metrics.ts";
import { describeSubject, traceLocks, wrapPlugin } from "./plugin_calls.ts";
import { tracePrograms } from "./deno_calls.ts";
import { traceNetlink } from "./netlink_calls.ts";
import { type OtelSettings, readOtelSettings } from "./otel_settings.ts";
import { SpanExporter } from "./span_exporter.ts";
import { SpanRecorder } from "./span_recorder.ts";

/** Time limit of the post at the exit of the daemon, in ms. */
const GRACE_MS = 1000;

/** The spans of a daemon, from its start to its end. */
export interface DaemonSpans extends AsyncDisposable {
  readonly trace: CallTrace;
  readonly gauges: readonly Gauge[];
  /** Finds the plugins that report their operations as spans. */
  readonly lookup: (lookup: PluginLookup) => PluginLookup;
}

/**
 * Starts to make spans if the environment names their destination. Logs a failure.
 *
 * @returns Undefined if there are none
 */
export async function startDaemonSpans(
  env: Environment,
  log: Pick<Log, "warn" | "info">,
): Promise<DaemonSpans | undefined> {
  try {
    const settings = readOtelSettings(env);
    if (settings === undefined) return undefined;
    return await start(settings, log);
  } catch (error) {
    log.warn("There are no spans", { error: describeError(error) });
    return undefined;
  }
}

async function start(
  settings: OtelSettings,
  log: Pick<Log, "warn" | "info">,
): Promise<DaemonSpans> {
  const exporter = new SpanExporter(settings, log);
  const recorder = await SpanRecorder.create(settings, exporter.add);
  const stop = [
    tracePrograms(recorder),
    traceLocks(recorder),
    traceNetlink(recorder),
  ];
  return {
    trace: followCalls(recorder),
    gauges: [{
      name: "cni_daemon_spans_total",
      type: "counter",
      help: "Spans of traces, and whether the collector accepted them.",
      read: () => [
        [{ outcome: "exported" }, exporter.exported],
        [{ outcome: "dropped" }, exporter.dropped],
      ],
    }],
    lookup: (lookup) => wrapAll(recorder, lookup),
    async [Symbol.asyncDispose](): Promise<void> {
      for (const one of stop) one();
      await exporter.finish(GRACE_MS);
    },
  };
}

function followCalls(recorder: SpanRecorder): CallTrace {
  const deletion = (
    links: Parameters<LinkDeletion["now"]>[0],
    run: () => Promise<void>,
  ): Promise<void> => {
    const object = links.map(({ name }) => name).join(", ");
    if (object === "") return run();
    return recorder.around(
      { kind: "wait", name: "link deletion", object },
      run,
    );
  };
  return {
    async around({ plugin, env }, run): ReturnType<typeof run> {
      const begun = recorder.beginCall(
        env,
        describeSubject(plugin.name, env),
      );
      return await begun.within(async () => {
        const ended = await run();
        const startMs = performance.now() - ended.ms;
        const wait = { kind: "wait", name: "turn" } as const;
        recorder.add(wait, startMs, { endMs: startMs + ended.waitedMs });
        begun.end(describeOutcome(ended));
        return ended;
      });
    },
    linkDeletion: (inner) => ({
      now: (links) => deletion(links, () => inner.now(links)),
      later: (links) => deletion(links, () => inner.later(links)),
    }),
  };
}

function describeOutcome(
  { outcome }: EndedCall,
): Parameters<ReturnType<SpanRecorder["begin"]>["end"]>[0] {
  if ("declined" in outcome) return { more: { declined: outcome.declined } };
  if (outcome.exitCode === 0) return {};
  try {
    const { code, msg, details } = JSON.parse(outcome.stdout);
    const text = [msg, details].filter(Boolean).join(": ");
    return { error: new Error(text), more: { code } };
  } catch {
    return { error: new Error(outcome.stdout) };
  }
}

function wrapAll(recorder: SpanRecorder, lookup: PluginLookup): PluginLookup {
  const wrapped = new WeakMap<Plugin, Plugin>();
  return (type) =>
    lookup(type)?.then((plugin) => {
      const recorded = wrapped.get(plugin) ?? wrapPlugin(recorder, plugin);
      wrapped.set(plugin, recorded);
      return recorded;
    });
}
