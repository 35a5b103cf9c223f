import { assert, assertEquals } from "@std/assert";
import { findFileId } from "../../base/files/same_file.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { needsLegacyIptables } from "../../tests/_harness/rules.ts";
import { countLegacyRules, deletionOf, parseSaved } from "./legacy_rules.ts";

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

Deno.test("a table of many rules is read once for all drops", () => {
  const chains = 1000, rulesOfEach = 4;
  const lines = Array.from({ length: chains }, (_, at) => [
    `[0:0] -A cali-FORWARD -o veth${at} -j cali-tw-${at}`,
    ...Array.from(
      { length: rulesOfEach - 1 },
      (_, rule) => `[0:0] -A cali-tw-${at} -m mark --mark ${rule} -j RETURN`,
    ),
    `[${at}:0] -A cali-tw-${at} -j DROP`,
  ]).flat();
  const declared = Array.from(
    { length: chains },
    (_, at) => `:cali-tw-${at} -`,
  );
  const saved = [
    "*filter",
    ":FORWARD ACCEPT [0:0]",
    ":cali-FORWARD - [0:0]",
    ...declared.map((chain) => `${chain} [0:0]`),
    "[0:0] -A FORWARD -j cali-FORWARD",
    ...lines,
    "COMMIT",
  ];
  const exec = RegExp.prototype.exec;
  let count = 0;
  RegExp.prototype.exec = function (text): RegExpExecArray | null {
    count++;
    return exec.call(this, text);
  };
  let rules: ReturnType<typeof parseSaved>;
  try {
    rules = parseSaved(saved.join("\n"));
  } finally {
    RegExp.prototype.exec = exec;
  }
  const matchesOfLine = 5;
  assert(count <= matchesOfLine * saved.length, `${count} matches`);
  assertEquals(rules.length, chains);
  assertEquals(rules.at(-1), {
    text: "-A cali-tw-999 -j DROP",
    hooks: ["FORWARD"],
    isSelective: true,
    number: rulesOfEach,
    packets: 999,
  });
});
