import { assertEquals } from "@std/assert";
import { findFileId } from "../../base/files/same_file.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { needsLegacyIptables } from "../../tests/_harness/rules.ts";
import { countLegacyRules, deletionOf } from "./legacy_rules.ts";

rootTest(
  "the command that deletes a rule runs nothing that the rule contains",
  needsLegacyIptables(),
  async () => {
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
    const list = async (): Promise<string[]> =>
      (await countLegacyRules([host], undefined)).map(({ text }) => text);
    assertEquals((await list()).length, 1);
    const [rule] = await countLegacyRules([host], undefined);
    runIn(host, "bash", "-ec", rule === undefined ? "" : deletionOf(rule));
    assertEquals(await list(), []);
    assertEquals(findFileId(`${directory}/ran`), undefined);
  },
);
