import { assertEquals, assertRejects } from "@std/assert";
import { RecordingPlugins } from "../tests/_harness/recording_plugins.ts";
import { CniError } from "../base/error.ts";
import { addPlugins } from "./add_plugins.ts";
import { createTools } from "./tools.ts";

Deno.test("addPlugins() passes the initial result to the first plugin unchanged", async () => {
  using host = new RecordingPlugins();
  for (const type of ["a", "b"]) host.add(type, { ADD: "echo '{\"x\":1}'" });
  const prevResult = { cniVersion: "0.2.0", ip4: { ip: "10.0.0.2/24" } };
  const added = await addPlugins(
    createTools({ pluginDirs: [host.directory.path], env: {} }),
    host.list(["a", "b"]),
    host.conf(),
    { prevResult },
  );
  assertEquals(
    host.calls.map(({ stdin }) => stdin.prevResult),
    [prevResult, { cniVersion: "1.1.0", x: 1 }],
  );
  assertEquals(added.document, { cniVersion: "1.1.0", x: 1 });
});

Deno.test("addPlugins() refuses an empty list", async () => {
  using host = new RecordingPlugins();
  const error = await assertRejects(
    () =>
      addPlugins(
        createTools({ pluginDirs: [host.directory.path], env: {} }),
        { name: "net1", cniVersion: "1.1.0", plugins: [] },
        host.conf(),
        {},
      ),
    CniError,
    'Cannot attach to network "net1": it has no plugins',
  );
  assertEquals(error.code, 7);
});
