import { assertEquals } from "@std/assert";
import { callWith } from "../../tests/_harness/tool_call.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { explain, schema } from "./command.ts";

Deno.test("explain accepts the code of a finding, or its name", async () => {
  const [byCode, byName] = await Promise.all(
    ["cni0511", "mac-twice"].map((name) => explain(callWith({ args: [name] }))),
  );
  assertEquals(byName?.json, byCode?.json);
  assertEquals((byName?.json as { code: string }).code, "CNI0511");
});

Deno.test("schema --output writes the schema of one plugin", async () => {
  using directory = new PluginDirectory();
  const output = `${directory.path}/ptp.json`;
  const call = callWith({ args: ["ptp"], flags: { output } });
  const { text } = await schema(call);
  assertEquals(text, output);
  const { title } = JSON.parse(await Deno.readTextFile(output));
  assertEquals(title, "ptp plugin");
});
