import { assertEquals, assertStringIncludes } from "@std/assert";
import { ConfDirectory, createNode } from "./testing/node.ts";
import { CONFIGURATION_CHECKS } from "./configurations.ts";
import { diagnose } from "./diagnose.ts";

Deno.test("a broken file is not reported as a missing network", async () => {
  using confs = new ConfDirectory();
  confs.write('{\n  "name": "pods",\n  "plugins": [{ "type": "ptp", }]\n}\n');
  using node = createNode({ confDir: confs.path });
  const { findings } = await diagnose(node, () => {}, CONFIGURATION_CHECKS);
  assertEquals(findings.map(({ code }) => code), ["CNI0102"]);
  const [{ message, effect, advice } = {}] = findings;
  assertStringIncludes(message ?? "", `"${confs.file}" cannot be used`);
  assertStringIncludes(effect ?? "", "no pod starts");
  assertEquals(
    advice,
    "correct line 3, column 32 (not JSON: expected a key in double quotes, " +
      'got "}"; remove the comma before it), or move it away',
  );
});
