import { calledAs } from "../../base/process/stdio.ts";
import { runAsPlugin } from "../../daemon/caller/ask_daemon.ts";
import { multus } from "./plugin.ts";

/** Runs this process as the plugin multus, or with arguments as a command. */
async function main(): Promise<void> {
  if (Deno.args.length > 0) {
    return void await import("../../cli/multus/commands.ts");
  }
  await runAsPlugin(calledAs(), () => multus, {
    askThirdParty: async (...asked) =>
      await (await import("./thick/client.ts")).askThick(...asked),
  });
}

main();
