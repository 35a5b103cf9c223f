import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { needsLegacyIptables } from "../../tests/_harness/rules.ts";
import { countLegacyRules, deletionOf } from "./legacy_rules.ts";

rootTest(
  "the command that deletes a rule runs nothing that the rule contains",
  needsLegacyIptables(),
  () => {
    using hosts = TestHosts.create();
    const { host, directory } = hosts;
    const comment = `a "b" \\ $(touch ${directory}/ran)`;
    runIn(
      host,
      "iptables-legacy",
      ..."-A FORWARD ! -s 10.1.0.0/24 -m comment --comment".split(" "),
      comment,
      "-j",
      "DROP",
    );
    const list = (): string[] =>
      countLegacyRules([host], undefined).map(({ text }) => text);
    assertEquals(list().length, 1);
    const [rule] = countLegacyRules([host], undefined);
    runIn(host, "bash", "-ec", rule === undefined ? "" : deletionOf(rule));
    assertEquals(list(), []);
    const names = [...Deno.readDirSync(directory)].map(({ name }) => name);
    assertEquals(names.includes("ran"), false);
  },
);
