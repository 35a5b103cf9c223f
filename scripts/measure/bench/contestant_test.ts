import { assertEquals } from "@std/assert";
import { rootTest } from "../../../testing/capabilities.ts";
import { PluginDirectory } from "../../../tests/_harness/plugin_directory.ts";
import { CallRunner } from "./call.ts";
import type { ChainName } from "./chain.ts";
import { listContestants } from "./contestant.ts";
import { BenchNode } from "./node.ts";

rootTest("listContestants() runs chains in one process", async (t) => {
  const rows: [chain: ChainName, executables: string[], who: string[]][] = [
    ["pod", [], ["fast"]],
    ["pod", ["multus", "cni"], [
      "fast",
      "fast daemon",
      "fast multus",
      "fast cni",
    ]],
    ["pod", ["chain"], ["fast", "fast daemon chain", "fast chain"]],
    ["pod", ["chain", "cni"], [
      "fast",
      "fast daemon",
      "fast daemon chain",
      "fast chain",
      "fast cni",
    ]],
    ["ptp", ["multus", "cni", "chain"], ["fast", "fast daemon"]],
    ["pod", ["multus-shim"], ["fast"]],
    ["pod", ["multus-shim", "multus-daemon"], ["fast", "fast multus thick"]],
  ];
  for (const [chain, executables, who] of rows) {
    await t.step(`${chain} with ${executables.join(", ") || "none"}`, () => {
      using plugins = new PluginDirectory();
      for (const name of executables) plugins.add(name, "");
      using node = new BenchNode({
        subject: {
          name: "fast",
          bin: plugins.path,
          ...executables.includes("multus-daemon") &&
            { thickDaemon: `${plugins.path}/multus-daemon` },
        },
        chain,
        masquerade: false,
        runner: new CallRunner(plugins.path),
        directory: plugins.path,
        deno: [],
      });
      const contestants = listContestants(node, chain);
      assertEquals(contestants.map((one) => one.who), who);
    });
  }
});
