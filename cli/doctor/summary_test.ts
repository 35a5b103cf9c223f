import { assertEquals } from "@std/assert";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { Node } from "./node.ts";
import { summarize } from "./summary.ts";

Deno.test("summarize() counts no tool as a plugin", async () => {
  using directory = new PluginDirectory();
  for (const name of ["ptp", "host-local", "cni", "cnitool", "cni-multus"]) {
    directory.addOwnExecutable(name);
  }
  using node = new Node({
    directories: {
      pluginDirs: [directory.path],
      confDir: "/nonexistent",
      cacheDir: "/nonexistent",
    },
    env: {},
    signal: new AbortController().signal,
    daemonSocket: "/nonexistent/daemon.sock",
  });
  const lines = await summarize(node);
  assertEquals(
    lines.find(({ label }) => label === "Plugins")?.text,
    `2 in ${directory.path}: 2 of this project`,
  );
});
