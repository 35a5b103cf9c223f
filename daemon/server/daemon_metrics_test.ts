import { assertEquals, assertStringIncludes } from "@std/assert";
import { Ip } from "../../net/ip.ts";
import { DaemonMetrics } from "./daemon_metrics.ts";

const CALL = { plugin: "ptp", command: "ADD", code: 0, ms: 1, waitedMs: 0 };

Deno.test("DaemonMetrics limits the number of network names in samples", () => {
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

Deno.test("DaemonMetrics counts address conflicts by their outcome", () => {
  const metrics = new DaemonMetrics([]);
  const instead = Ip.parse("192.0.2.2");
  metrics.countConflict({ network: "lan", instead });
  metrics.countConflict({ network: "lan", instead });
  metrics.countConflict({ network: "lan", instead: undefined });
  const name = "cni_daemon_address_conflicts_total";
  assertEquals(metrics.format().match(new RegExp(`^${name}.*$`, "gm")), [
    `${name}{network="lan",outcome="replaced"} 2`,
    `${name}{network="lan",outcome="failed"} 1`,
  ]);
});
