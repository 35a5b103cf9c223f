import { assertEquals, assertStringIncludes } from "@std/assert";
import { DaemonMetrics } from "./daemon_metrics.ts";

const CALL = { plugin: "ptp", command: "ADD", code: 0, ms: 1, waitedMs: 0 };

Deno.test("DaemonMetrics: names of networks do not make samples without end", () => {
  const metrics = new DaemonMetrics([]);
  for (let number = 0; number < 200; number++) {
    metrics.countCall({ ...CALL, network: `network${number}` });
  }
  metrics.countCall({ ...CALL, network: "network0" });
  const text = metrics.format();
  const samples = text.match(/^cni_daemon_calls_total\{.*$/gm) ?? [];
  assertEquals(samples.length, 101);
  assertStringIncludes(text, 'network="network0",code="0"} 2\n');
  assertStringIncludes(text, 'network="other networks",code="0"} 100\n');
});
