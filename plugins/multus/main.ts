import { calledAs } from "../../base/process/stdio.ts";
import { runPlugin } from "../../daemon/caller/ask_daemon.ts";
import { multus } from "./plugin.ts";

/** Runs this process as the plugin multus, or with arguments as a command. */
async function main(): Promise<void> {
  if (Deno.args.length > 0) {
    return void await import("../../cli/multus/main.ts");
  }
  await runPlugin(calledAs(), () => multus, {
    askThirdParty: async (...asked) =>
      await (await import("./thick/client.ts")).askThick(...asked),
  });
}

main();
