/**
 * Runs this process as `cni daemon`.
 *
 * @module
 */

import { describeError } from "../../cni/error.ts";
import { writeStderr, writeStdout } from "../../cni/stdio.ts";
import { pluginNames } from "../../plugins/registry.ts";
import { daemon } from "./command.ts";
import { CNI_DAEMON } from "./options.ts";

/** Signals that end the daemon. A second one ends it at once. */
const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;

function listenToSignals(): AbortSignal {
  const controller = new AbortController();
  for (const [name, number] of Object.entries(SIGNALS)) {
    Deno.addSignalListener(name as keyof typeof SIGNALS, () => {
      if (controller.signal.aborted) Deno.exit(128 + number);
      controller.abort(new Error(`interrupted by ${name}`));
    });
  }
  return controller.signal;
}

async function main(): Promise<never> {
  // If the event loop runs empty, that must not look like success.
  Deno.exitCode = 1;
  try {
    Deno.exit(
      await daemon(CNI_DAEMON, Deno.args.slice(1), {
        env: Deno.env.toObject(),
        pluginNames,
        signal: listenToSignals(),
        onStdout: (text) => writeStdout(`${text}\n`) === undefined ? 0 : 1,
        onStderr: (text) => writeStderr(text),
      }),
    );
  } catch (error) {
    writeStderr(`${describeError(error)}\n`);
    Deno.exit(1);
  }
}

main();
