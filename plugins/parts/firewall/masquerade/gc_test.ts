import { assertEquals } from "@std/assert";
import { allOf, rootTest } from "../../../../testing/capabilities.ts";
import { runIn } from "../../../../testing/ip_json.ts";
import { dualStack } from "../../../../tests/_harness/dual_stack.ts";
import { legacyPath } from "../../../../tests/_harness/legacy_path.ts";
import { PluginScene } from "../../../../tests/_harness/plugin_scene.ts";
import {
  needsLegacyIptables,
  needsRuleTools,
} from "../../../../tests/_harness/rules.ts";
import { eachRow } from "../../../../tests/_harness/table.ts";
import { namesOf } from "./names.ts";

const CONTAINERS = ["first", "second", "third"];

rootTest(
  "GC removes the other chains if it cannot remove one",
  allOf(needsRuleTools, needsLegacyIptables()),
  async (t) => {
    await eachRow(t, ["nft", "legacy"], async (variant) => {
      using scene = new PluginScene(
        "ptp",
        (hosts) =>
          dualStack(hosts, { ipMasq: true, ipMasqBackend: "iptables" }),
      );
      const { hosts } = scene;
      const env = variant === "legacy" ? legacyPath(hosts) : {};
      const all: string[] = [];
      for (const containerId of CONTAINERS) {
        const sandbox = hosts.addNetns();
        await scene.succeed("ADD", {}, { containerId, sandbox, env });
        const owner = { network: "net1", containerId, ifName: "eth0" };
        all.push((await namesOf(owner)).chain);
      }
      const nat = (...args: string[]): string =>
        runIn(hosts.host, `iptables-${variant}`, "-t", "nat", ...args);
      const chains = (): string[] =>
        all.filter((chain) => nat("-S").includes(`-N ${chain}`));
      assertEquals(chains(), all);
      const [first = ""] = all;
      // The kernel keeps a chain to which another program's rule leads.
      nat("-N", "theirs");
      nat("-A", "theirs", "-j", first);
      const gc = { "cni.dev/valid-attachments": [] };
      const text = `Cannot remove the chain "${first}"`;
      await scene.fail("GC", [999, text], gc, { env });
      assertEquals(chains(), [first]);
      nat("-F", "theirs");
      await scene.succeed("GC", gc, { env });
      assertEquals(chains(), []);
    });
  },
);
