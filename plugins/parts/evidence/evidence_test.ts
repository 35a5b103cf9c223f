import { assertEquals } from "@std/assert";
import { rootTest } from "../../../testing/capabilities.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { hasPrefix, NodeEvidence } from "./evidence.ts";

Deno.test("hasPrefix() reports whether a text starts with one of the prefixes", () => {
  const ids = ["a", "ab", "abc", "b0", "b1", "zz"];
  const prefixes = ["", "a", "abc", "abcd", "b", "b1", "b2", "z", "zzz", "A"];
  for (const texts of [ids, ids.slice(0, 1), []]) {
    for (const prefix of prefixes) {
      const expected = texts.some((text) => text.startsWith(prefix));
      assertEquals(hasPrefix(texts, prefix), expected, `${texts} ${prefix}`);
    }
  }
});

rootTest(
  "a container is alive if the path of its namespace cannot be read",
  async () => {
    using hosts = TestHosts.create();
    const file = `${hosts.directory}/file`;
    await Deno.writeTextFile(file, "");
    await Deno.symlink("loop", `${hosts.directory}/loop`);
    const evidence = await NodeEvidence.gather({
      hostNetns: hosts.host.path,
      caches: [],
      leases: [],
      graceMs: 0,
    });
    const rows: [path: string, isAlive: boolean][] = [
      [hosts.sandbox.path, true],
      [`${hosts.directory}/loop`, true],
      [`${file}/x`, false],
      [file, false],
      [`${file}-missing`, false],
      [hosts.host.path, false],
      ["", false],
    ];
    for (const [path, isAlive] of rows) {
      assertEquals(evidence.isAlive(path), isAlive, path);
    }
  },
);
