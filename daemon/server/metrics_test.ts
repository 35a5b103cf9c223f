import { assertEquals } from "@std/assert";
import { Counter, formatGauge, Histogram } from "./metrics.ts";

Deno.test("Counter adds up by labels, and quotes their values", () => {
  const counter = new Counter("calls_total", "Calls.");
  counter.add({ plugin: "ptp", code: 0 });
  counter.add({ plugin: "ptp", code: 0 });
  counter.add({ plugin: 'a "\\\n b', code: 7 });
  counter.add({ plugin: "\x1b[2J\r\0\x7f\x9bé", code: 7 });
  assertEquals(
    counter.format(),
    [
      "# HELP calls_total Calls.",
      "# TYPE calls_total counter",
      'calls_total{plugin="ptp",code="0"} 2',
      'calls_total{plugin="a \\"\\\\\\n b",code="7"} 1',
      'calls_total{plugin="\ufffd[2J\ufffd\ufffd\ufffd\ufffdé",code="7"} 1',
      "",
    ].join("\n"),
  );
});

Deno.test("Histogram counts durations up to each bound", () => {
  const histogram = new Histogram("wait_seconds", "Waits.");
  for (const seconds of [0.001, 0.005, 0.02, 100]) {
    histogram.observe({}, seconds);
  }
  const lines = histogram.format().trimEnd().split("\n");
  assertEquals(lines.slice(2, 6), [
    'wait_seconds_bucket{le="0.005"} 2',
    'wait_seconds_bucket{le="0.01"} 2',
    'wait_seconds_bucket{le="0.025"} 3',
    'wait_seconds_bucket{le="0.05"} 3',
  ]);
  assertEquals(lines.slice(-4), [
    'wait_seconds_bucket{le="60"} 3',
    'wait_seconds_bucket{le="+Inf"} 4',
    "wait_seconds_sum 100.026",
    "wait_seconds_count 4",
  ]);
});

Deno.test("formatGauge() reads the values when it is called", () => {
  let value = 1;
  const gauge = {
    name: "running",
    help: "Calls.",
    read: () => [[{}, value] as const],
  };
  value = 2;
  assertEquals(
    formatGauge(gauge),
    "# HELP running Calls.\n# TYPE running gauge\nrunning 2\n",
  );
});
