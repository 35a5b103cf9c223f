import { assertEquals, assertRejects } from "@std/assert";
import { PluginDirectory } from "../tests/_harness/plugin_directory.ts";
import { askPlugin } from "./ask_plugin.ts";

const DESCRIBE = { ask: "describe" } as const;
const CONTEXT = { env: { PATH: "/usr/bin:/bin" }, signal: undefined };

Deno.test("askPlugin() returns what a plugin tells, and nothing of others", async (t) => {
  using directory = new PluginDirectory();
  const versions = '"cniVersion":"1.0.0","supportedVersions":["1.0.0"]';
  const rows: [name: string, script: string, expected: unknown][] = [
    ["tells", `echo '{${versions},"tools":{"secrets":[]}}'`, { secrets: [] }],
    ["versions only", `echo '{${versions}}'`, undefined],
    ["no JSON", "echo hello", undefined],
    ["a failure", "exit 1", undefined],
    ["no object", `echo '{"tools":5}'`, undefined],
  ];
  for (const [name, script, expected] of rows) {
    await t.step(name, async () => {
      const path = directory.add("plugin", `cat > /dev/null; ${script}`);
      assertEquals(
        await askPlugin(path, DESCRIBE, CONTEXT) as unknown,
        expected,
      );
    });
  }
});

Deno.test("askPlugin() asks by VERSION, with a question that others ignore", async () => {
  using directory = new PluginDirectory();
  const path = directory.add(
    "plugin",
    `cat > ${directory.path}/stdin; echo $CNI_COMMAND $CNI_TOOL_ASKS > ` +
      `${directory.path}/command`,
  );
  await askPlugin(path, DESCRIBE, CONTEXT);
  assertEquals(directory.read("command"), "VERSION describe\n");
  const { cniVersion, tools } = JSON.parse(directory.read("stdin"));
  assertEquals([cniVersion, tools], ["1.1.0", DESCRIBE]);
});

Deno.test("askPlugin() gives up on a plugin that does not answer", async () => {
  using directory = new PluginDirectory();
  const path = directory.add("plugin", "exec sleep 600");
  assertEquals(await askPlugin(path, DESCRIBE, CONTEXT, 20), undefined);
  const signal = AbortSignal.abort(new Error("interrupted"));
  await assertRejects(() => askPlugin(path, DESCRIBE, { ...CONTEXT, signal }));
});
