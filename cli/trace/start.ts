/**
 * Traces what a process does: its plugins, kernel requests, files and processes.
 *
 * @module
 */

import { traceDeno } from "./deno_calls.ts";
import { traceLocks } from "./locks.ts";
import { traceNetlink } from "./netlink_calls.ts";
import { FileRecorder } from "./file_recorder.ts";
import { type Loaders, tracePlugins } from "./plugin_calls.ts";

/**
 * Starts to trace this process. It observes netlink sockets, and replaces
 * functions of Deno, so that code that is not traced pays nothing.
 *
 * @param path The trace, to which other processes append as well
 * @param loaders The registry of plugins
 * @param call What the process was started for, recorded when it exits; "" for
 *   none
 * @returns Stops it
 * @throws {Error} If the file cannot be written
 */
export function startTracing(
  path: string,
  loaders: Readonly<Loaders>,
  call = "",
): Disposable {
  const recorder = new FileRecorder(path);
  const undo = [
    tracePlugins(recorder, loaders as Loaders),
    traceNetlink(recorder),
    traceDeno(recorder, path),
    traceLocks(recorder),
  ];
  const exit = Deno.exit;
  const stop = (): void => {
    Deno.exit = exit;
    for (const one of undo.toReversed()) one();
    recorder.close();
  };
  Deno.exit = (code): never => {
    const more = { code: code ?? 0 };
    // Times count from the start of the process.
    if (call !== "") recorder.add({ kind: "call", name: call }, 0, { more });
    stop();
    return exit(code);
  };
  return { [Symbol.dispose]: stop };
}
