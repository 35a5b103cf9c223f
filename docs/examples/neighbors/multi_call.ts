import { type PluginLookup, runMain } from "@cni/plugins";
import { findPlugin } from "@cni/plugins/libcni";

const lookup: PluginLookup = (type) =>
  type === "neighbors"
    ? import("./main.ts").then(({ neighbors }) => neighbors)
    : findPlugin(type);

// The name that it was called by; Deno.execPath() would follow links.
const [path = ""] = Deno.readTextFileSync("/proc/self/cmdline").split("\0");
const name = path.slice(path.lastIndexOf("/") + 1);
const plugin = await lookup(name);
if (plugin === undefined) throw new Error(`No plugin is named "${name}"`);
await runMain(plugin, lookup);
