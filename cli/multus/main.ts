import { calledAs } from "../../cni/process/stdio.ts";
import { runPlugin } from "../../daemon/client/ask_daemon.ts";
import { multus } from "../../plugins/multus/plugin.ts";

/** Runs this process as the plugin multus, or with arguments as a command. */
async function main(): Promise<void> {
  if (Deno.args.length > 0) await import("./command.ts");
  else await runPlugin(calledAs(), () => multus);
}

main();
