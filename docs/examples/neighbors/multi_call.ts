import { type PluginLookup, runNamed } from "@cni/plugins";
import { findPlugin } from "@cni/plugins/libcni";

const lookup: PluginLookup = (type) =>
  type === "neighbors"
    ? import("./main.ts").then(({ neighbors }) => neighbors)
    : findPlugin(type);

await runNamed(lookup);
