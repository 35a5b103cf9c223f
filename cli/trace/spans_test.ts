/**
 * Spans of OpenTelemetry: that a call is one trace from the runtime to each
 * request to the kernel, by the daemon and without, and that a collector that is
 * gone, silent or slow costs nothing but spans.
 */

import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { inNetns } from "../../ffi/netns.ts";
import {
  allOf,
  ignoreUnless,
  isExecutable,
  rootTest,
} from "../../testing/capabilities.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { needsBin, startPlugin } from "../../tests/_harness/executables.ts";
import { NodeDaemon } from "../../tests/_harness/node_daemon.ts";
import {
  type Collected,
  OtlpCollector,
} from "../../tests/_harness/otlp_collector.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";

const POD = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web";

/** A runtime's span. */
class RuntimeSpan {
  readonly traceId: string;
  readonly spanId = "b7ad6b7169203331";
  readonly env: Record<string, string>;

  constructor(number: number, isSampled = true) {
    this.traceId = String(number).padStart(32, "a");
    const flags = isSampled ? "01" : "00";
    this.env = {
      TRACEPARENT: `00-${this.traceId}-${this.spanId}-${flags}`,
      CNI_ARGS: POD,
    };
  }
}

function ptp(hosts: TestHosts): Record<string, unknown> {
  const ipam = hosts.hostLocal("10.1.2.0/24");
  return { cniVersion: "1.1.0", name: "pods", type: "ptp", ipam };
}

/** Asserts that spans are one tree below the runtime's. */
function assertTree(
  spans: readonly Collected[],
  { spanId }: RuntimeSpan,
): void {
  const known = new Map(spans.map((span) => [span.spanId, span]));
  assertEquals(known.size, spans.length);
  for (const { name, parentSpanId = "", startMs, endMs } of spans) {
    const parent = known.get(parentSpanId);
    assert(parent !== undefined || parentSpanId === spanId, `lost: ${name}`);
    if (parent === undefined) continue;
    // Two processes may measure times differently.
    const isInside = parent.startMs - 5 <= startMs && endMs <= parent.endMs + 5;
    assert(isInside, `${name} is not inside ${parent.name}`);
  }
  const top = spans.filter((span) => span.parentSpanId === spanId);
  assertEquals(top.map(({ name }) => name), ["CNI ADD"]);
  assertEquals(top[0]?.kind, 2);
  const { attributes = {} } = top[0] ?? {};
  assertEquals(attributes["k8s.pod.name"], "web");
  assertEquals(attributes["k8s.namespace.name"], "default");
  assertEquals(attributes["cni.container_id"], "test-container");
}

/** Names the spans from one up to the top. */
function pathTo(spans: readonly Collected[], name: string): string[] {
  const path: string[] = [];
  for (
    let span = spans.find((one) => one.name === name);
    span !== undefined;
  ) {
    path.unshift(span.name);
    const { parentSpanId } = span;
    span = spans.find((one) => one.spanId === parentSpanId);
  }
  return path;
}

rootTest("spans: a plugin without a daemon", needsBin, async (t) => {
  using hosts = TestHosts.create();
  await using collector = new OtlpCollector(hosts.host);
  const config = ptp(hosts);
  const none = { CNI_NO_DAEMON: "1", ...collector.env };
  const run = async (
    command: string,
    env: Record<string, string>,
  ): Promise<string> => {
    const call = { type: "ptp", command, config };
    const started = startPlugin(hosts, call, { env: { ...none, ...env } });
    const { code, stdout, stderr } = await started.output;
    assertEquals([code, stderr], [0, ""], stdout);
    return stdout;
  };
  await t.step("runs its delegate in its process", async () => {
    const span = new RuntimeSpan(1);
    await run("ADD", span.env);
    const spans = await collector.trace(span.traceId, "CNI ADD");
    assertTree(spans, span);
    const top = ["CNI ADD", "ptp ADD"];
    assertEquals(pathTo(spans, "RTM_NEWLINK"), [...top, "RTM_NEWLINK"]);
    const ipam = [...top, "host-local ADD"];
    assertEquals(pathTo(spans, "lock"), [...ipam, "lock"]);
    await run("DEL", {});
  });
  await t.step("runs its delegate as a process", async () => {
    const span = new RuntimeSpan(2);
    await run("ADD", { ...span.env, CNI_NO_INPROCESS: "1" });
    const spans = await collector.trace(span.traceId, "ptp ADD");
    assertEquals(pathTo(spans, "lock"), [
      ...["CNI ADD", "ptp ADD", "run host-local"],
      ...["CNI ADD", "host-local ADD", "lock"],
    ]);
    await run("DEL", {});
  });
  await t.step("sends no span of an unsampled trace", async () => {
    const span = new RuntimeSpan(3, false);
    const before = collector.requests;
    await run("ADD", span.env);
    await run("DEL", span.env);
    assertEquals(collector.requests, before);
  });
  await t.step("works if the collector does not answer", async () => {
    collector.mood = "silent";
    await run("ADD", new RuntimeSpan(4).env);
    await run("DEL", {});
    assertEquals(hosts.leases("pods"), []);
    collector.mood = "well";
  });
  assertEquals(collector.complaints, []);
});

/** The daemon's sampled calls all end up here. */
rootTest("spans: calls of the daemon", needsBin, async (t) => {
  using hosts = TestHosts.create();
  await using collector = new OtlpCollector(hosts.host);
  await using daemon = await NodeDaemon.start(hosts, { env: collector.env });
  const config = ptp(hosts);
  await t.step(
    "each call is a separate trace, although calls wait for each other",
    async () => {
      const names = Array.from({ length: 8 }, (_, at) => `eth${at}`);
      const calls = names.map((ifName, at) => ({
        span: new RuntimeSpan(100 + at),
        ifName,
      }));
      const outputs = await Promise.all(
        calls.map(({ span, ifName }) =>
          daemon.call("ptp", "ADD", { config, ifName, env: span.env }).output
        ),
      );
      for (const [at, { span, ifName }] of calls.entries()) {
        const { code, stdout } = outputs[at] ?? { code: 1, stdout: "" };
        assertEquals(code, 0, stdout);
        const spans = await collector.trace(span.traceId, "CNI ADD");
        assertTree(spans, span);
        for (const name of ["turn", "host-local ADD", "lock", "RTM_NEWLINK"]) {
          assert(
            spans.some((one) => one.name === name),
            name,
          );
        }
        // Requests about the link of another call would be another call's.
        const [{ name: veth = "" } = {}] = JSON.parse(stdout).interfaces;
        const text = JSON.stringify(spans);
        assertStringIncludes(text, veth);
        const others = outputs.filter((_, other) => other !== at)
          .map(({ stdout }) => JSON.parse(stdout).interfaces[0].name);
        for (const other of others) assert(!text.includes(other), ifName);
      }
      for (const { span, ifName } of calls) {
        const call = { config, ifName, env: span.env };
        assertEquals((await daemon.call("ptp", "DEL", call).output).code, 0);
        const spans = await collector.trace(span.traceId, "CNI DEL");
        assertEquals(pathTo(spans, "link deletion").slice(0, 2), [
          "CNI DEL",
          "ptp DEL",
        ]);
      }
    },
  );
  await t.step("a third-party plugin receives its span", async () => {
    using directory = new PluginDirectory();
    directory.add(
      "other",
      "cat > /dev/null; " +
        `echo "$TRACEPARENT" > ${directory.path}/$CNI_COMMAND; ` +
        'echo \'{"cniVersion":"1.1.0"}\'',
    );
    const span = new RuntimeSpan(200);
    const other = { ...config, ipam: { type: "other" } };
    const call = { config: other, plugins: directory.path, env: span.env };
    await daemon.call("ptp", "ADD", call).output;
    const spans = await collector.trace(span.traceId, "CNI ADD");
    const run = spans.find(({ name }) => name === "run other");
    const seen = directory.read("ADD").trim();
    assertEquals(seen, `00-${span.traceId}-${run?.spanId}-01`);
    assertEquals(run?.kind, 3);
  });
  await t.step("a failed call reports the reason", async () => {
    const span = new RuntimeSpan(300);
    const broken = { ...config, ipam: { type: "absent" } };
    await daemon.call("ptp", "ADD", { config: broken, env: span.env }).output;
    const spans = await collector.trace(span.traceId, "CNI ADD");
    const top = spans.find(({ name }) => name === "CNI ADD");
    assertStringIncludes(top?.error ?? "", "absent");
    assert(Number(top?.attributes["cni.code"]) > 0);
  });
  await t.step("the daemon counts the accepted spans", async () => {
    const sample = 'cni_daemon_spans_total{outcome="exported"}';
    await eventually(
      "all are counted",
      async () => await daemon.metric(sample) === collector.spans.length,
    );
    const dropped = 'cni_daemon_spans_total{outcome="dropped"}';
    assertEquals(await daemon.metric(dropped), 0);
  });
  assertEquals(collector.complaints, []);
});

const DROPPED = 'cni_daemon_spans_total{outcome="dropped"}';

rootTest(
  "spans: a silent or failing collector loses spans only",
  allOf(needsBin),
  async (t) => {
    using hosts = TestHosts.create();
    await using collector = new OtlpCollector(hosts.host);
    const limits = {
      OTEL_BSP_MAX_QUEUE_SIZE: "5",
      OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "5",
    };
    const env = { ...collector.env, ...limits };
    const config = ptp(hosts);
    const attach = async (daemon: NodeDaemon): Promise<void> => {
      for (const command of ["ADD", "DEL"]) {
        const { code, stdout } = await daemon.call("ptp", command, { config })
          .output;
        assertEquals(code, 0, stdout);
      }
    };
    await t.step(
      "silent: calls succeed, and spans beyond the queue are dropped",
      async () => {
        await using daemon = await NodeDaemon.start(hosts, { env });
        collector.mood = "silent";
        await attach(daemon);
        await eventually("it has a request", () => collector.requests > 0);
        assert(await daemon.metric(DROPPED) > 0);
        daemon.signal("SIGTERM");
        assertEquals(await daemon.ended(), 0);
      },
    );
    await t.step(
      "failing: spans are dropped, and the log reports it once",
      async () => {
        await using daemon = await NodeDaemon.start(hosts, {
          env: collector.env,
        });
        collector.mood = "failing";
        await attach(daemon);
        await eventually(
          "they are dropped",
          async () => await daemon.metric(DROPPED) > 0,
        );
        const before = await daemon.metric(DROPPED);
        await attach(daemon);
        await eventually(
          "more are",
          async () => await daemon.metric(DROPPED) > before,
        );
        assertEquals(daemon.log.match(/Cannot export spans/g)?.length, 1);
        collector.mood = "well";
        await attach(daemon);
        await daemon.says("Exporting spans again");
      },
    );
    await t.step("an unsupported protocol: the log reports it", async () => {
      const grpc = { ...env, OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" };
      await using daemon = await NodeDaemon.start(hosts, { env: grpc });
      assertStringIncludes(daemon.log, "There are no spans");
      await attach(daemon);
    });
  },
);

/** An executable of the collector, with the receiver `otlp` and the exporter `debug`. */
const OTELCOL = Deno.env.get("CNI_OTELCOL") ?? "";
const needsOtelcol = ignoreUnless(
  isExecutable(OTELCOL),
  "needs CNI_OTELCOL, a collector of OpenTelemetry",
);

const OTELCOL_CONFIG = {
  receivers: { otlp: { protocols: { http: { endpoint: "127.0.0.1:4318" } } } },
  exporters: { debug: { verbosity: "detailed" } },
  service: {
    telemetry: { metrics: { level: "none" } },
    pipelines: { traces: { receivers: ["otlp"], exporters: ["debug"] } },
  },
};

rootTest(
  "spans: the OpenTelemetry collector accepts spans of daemon and plugin",
  allOf(needsBin, needsOtelcol),
  async () => {
    using hosts = TestHosts.create();
    const path = `${hosts.directory}/otelcol.yaml`;
    await Deno.writeTextFile(path, JSON.stringify(OTELCOL_CONFIG));
    const args = [`--config=${path}`];
    const options = { args, stdout: "null", stderr: "piped" } as const;
    const child = inNetns(
      hosts.host,
      () => new Deno.Command(OTELCOL, options).spawn(),
    );
    let said = "";
    const reading = (async () => {
      const text = child.stderr.pipeThrough(new TextDecoderStream());
      for await (const chunk of text) said += chunk;
    })();
    try {
      await eventually(
        "it is ready",
        () => said.includes("Everything is ready"),
        () => said,
      );
      const env = {
        OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318",
        OTEL_BSP_SCHEDULE_DELAY: "50",
      };
      await using daemon = await NodeDaemon.start(hosts, { env });
      const config = ptp(hosts);
      const [first, second] = [new RuntimeSpan(1), new RuntimeSpan(2)];
      const add = { config, env: first.env };
      assertEquals((await daemon.call("ptp", "ADD", add).output).code, 0);
      const del = { type: "ptp", command: "DEL", config };
      const alone = { CNI_NO_DAEMON: "1", ...env, ...second.env };
      const { code } = await startPlugin(hosts, del, { env: alone }).output;
      assertEquals(code, 0);
      for (const { traceId, spanId } of [first, second]) {
        await eventually(
          "it has the trace",
          () =>
            new RegExp(
              `Trace ID +: ${traceId}\\s+Parent ID +: ${spanId}\\s`,
            ).test(said),
          () => said,
        );
      }
      for (const name of ["RTM_NEWLINK", "turn", "CNI DEL"]) {
        assertMatch(said, new RegExp(`Name +: ${name}\\n`));
      }
      const exported = 'cni_daemon_spans_total{outcome="exported"}';
      assert(await daemon.metric(exported) > 0);
      assertEquals(await daemon.metric(DROPPED), 0);
    } finally {
      child.kill("SIGTERM");
      await child.status;
      await reading;
    }
  },
);
