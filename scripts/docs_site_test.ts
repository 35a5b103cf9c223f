import { assertEquals, assertStringIncludes } from "@std/assert";
import { PluginDirectory } from "../tests/_harness/plugin_directory.ts";

Deno.test("deno task docs says what it needs without a network", async () => {
  using directory = new PluginDirectory();
  directory.add(
    "npm",
    `[ "$1" = config ] && echo http://127.0.0.1:1/ && exit
echo "npm $*" >> ${directory.path}/calls; exit 1`,
  );
  const { code, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-config", "scripts/docs_site.ts"],
    cwd: new URL("..", import.meta.url),
    env: { PATH: `${directory.path}:/usr/bin:/bin` },
  }).output();
  assertEquals(code, 1);
  const said = new TextDecoder().decode(stderr);
  assertStringIncludes(said, "http://127.0.0.1:1/ is out of reach");
  assertStringIncludes(said, "deno task docs needs the packages of docs/site/");
  assertEquals(
    directory.read("calls"),
    "npm ci --no-audit --no-fund --offline\n",
  );
});
