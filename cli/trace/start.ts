/**
 * Traces what a process does: its plugins, kernel requests, files and processes.
 *
 * @module
 */

import type { JsonObject } from "../../cni/json/json.ts";
import type { Plugin } from "../../cni/plugin.ts";
import { traceDeno } from "./deno_calls.ts";
import { traceNetlink } from "./netlink_calls.ts";
import { toJson } from "./record.ts";
import { Recorder } from "./recorder.ts";

/** The loaders of plugins, which are replaced while tracing. */
export type Loaders = Record<string, () => Promise<Plugin>>;

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
  const recorder = new Recorder(path);
  const undo = [
    tracePlugins(recorder, loaders as Loaders),
    traceNetlink(recorder),
    traceDeno(recorder, path),
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

const OPERATIONS = ["add", "check", "del", "gc", "status"] as const;

function tracePlugins(recorder: Recorder, loaders: Loaders): () => void {
  const originals = { ...loaders };
  for (const [type, load] of Object.entries(originals)) {
    loaders[type] = async () => wrapPlugin(recorder, await load());
  }
  return () => {
    Object.assign(loaders, originals);
  };
}

function wrapPlugin(recorder: Recorder, plugin: Plugin): Plugin {
  const wrapped: Record<string, unknown> = { ...plugin };
  for (const operation of OPERATIONS) {
    const original = plugin[operation];
    if (original === undefined) continue;
    wrapped[operation] = (call: Parameters<typeof original>[0]): unknown =>
      recorder.around(
        {
          kind: "plugin",
          name: `${plugin.name} ${operation.toUpperCase()}`,
          object: call.args.ifName,
          detail: describeCall(call),
        },
        () => Reflect.apply(original, plugin, [call]) as unknown,
      );
  }
  return wrapped as unknown as Plugin;
}

function describeCall(
  { args, network, config }: Parameters<NonNullable<Plugin["add"]>>[0],
): JsonObject {
  const { containerId, netns } = args;
  return { network, containerId, netns, config: toJson(config) } as JsonObject;
}
