import { runMain } from "../../cni/skel.ts";
import { multus } from "../../plugins/multus/plugin.ts";

/** Runs this process as multus: as the plugin, or with arguments as its commands. */
async function main(): Promise<void> {
  if (Deno.args.length > 0) await import("./command.ts");
  else await runMain(multus);
}

main();
