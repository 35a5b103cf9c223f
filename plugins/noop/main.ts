import { describeError } from "../../base/error.ts";
import { once } from "../../base/json/json.ts";
import { printAndExit } from "../../cni/call/answer.ts";
import { dispatch, processInput } from "../../cni/skel.ts";
import { createNoop } from "./plugin.ts";

/**
 * Runs this process as noop. Like the Go noop, it crashes on a mistake in the
 * test's files.
 */
async function main(): Promise<void> {
  const { stdin, ...others } = processInput();
  const input = { ...others, stdin: once(stdin) };
  try {
    const noop = createNoop(input, printAndExit);
    printAndExit(await dispatch(noop, input));
  } catch (error) {
    input.onStderr?.(`test setup error: ${describeError(error)}\n`);
    Deno.exit(2);
  }
}

main();
