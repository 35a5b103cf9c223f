/**
 * Running one of this project's plugins in this process.
 *
 * It uses the same `dispatch()` with its own environment, stdin and stdout. The
 * outcome is the same, without the cost of a process start.
 *
 * @module
 */

import type { Plugin } from "../plugin.ts";
import { findFileId, OWN_EXECUTABLE } from "../../base/files/same_file.ts";
import { findPluginFile, type PluginFile, splitPath } from "./find.ts";
import type {
  DispatchInput,
  DispatchOutput,
  Invocation,
  Invoker,
} from "../call/context.ts";

/** Runs a plugin on given input. */
export type Dispatch = (
  plugin: Plugin,
  input: DispatchInput,
) => Promise<DispatchOutput>;

/** Finds one of this project's plugins by type; undefined for any other. */
export type PluginLookup = (type: string) => Promise<Plugin> | undefined;

/** A resident process's knowledge of its callers and plugins. */
export interface InvokerOptions {
  /**
   * Further files that count as this process's own, as `findFileId` identifies
   * them: the callers' own.
   */
  readonly callers?: readonly string[];
  /** Receives the ID of each process that is started for a plugin. */
  readonly onChild?: ((pid: number) => void) | undefined;
  /** Runs each plugin by calling `run`; may also fail instead, or afterwards. */
  readonly around?: (
    invocation: Invocation,
    run: () => Promise<string>,
  ) => Promise<string>;
}

/**
 * Makes an invoker that runs a plugin in this process if its executable in
 * CNI_PATH is this process's own file, by device and inode. Any other plugin runs
 * as a process, so an operator's own `host-local` is always honoured.
 * `CNI_NO_INPROCESS=1` in the environment turns this off.
 *
 * A signal does not interrupt a plugin in this process. It is passed on to the
 * plugins called from there, and nothing new is started after it.
 */
export function createInvoker(
  dispatch: Dispatch,
  lookup: PluginLookup,
  { callers = [], onChild, around = (_, run) => run() }: InvokerOptions = {},
): Invoker {
  let own: string | undefined;
  const isOwn = ({ id }: PluginFile): boolean => {
    own ??= findFileId(OWN_EXECUTABLE);
    return id === own || callers.includes(id);
  };
  const invoke = async (invocation: Invocation): Promise<string> => {
    const { type, env } = invocation;
    const file = findPluginFile(type, splitPath(env["CNI_PATH"] ?? ""));
    const { path } = file;
    const mayRunHere = env["CNI_NO_INPROCESS"] !== "1" && isOwn(file);
    const plugin = mayRunHere ? lookup(type) : undefined;
    if (plugin === undefined) {
      const { execPlugin } = await import("./exec.ts");
      return await execPlugin(path, { ...invocation, onChild });
    }
    const input = inputOf(invocation, invoker);
    return await runHere(
      path,
      input,
      async () => await dispatch(await plugin, input),
    );
  };
  const invoker: Invoker = {
    invoke: (invocation) => around(invocation, () => invoke(invocation)),
  };
  return invoker;
}

/**
 * Runs a plugin unless the deadline has passed; fails like a process would.
 *
 * @param path The plugin's name in errors
 * @throws {CniError} The plugin's own error
 */
export async function runHere(
  path: string,
  { signal }: Pick<DispatchInput, "signal">,
  runPlugin: () => Promise<DispatchOutput>,
): Promise<string> {
  if (signal?.aborted) {
    const { unstartedFailure } = await import("./failure.ts");
    throw unstartedFailure(path, signal);
  }
  const startMs = performance.now();
  const { stdout, stderr, exitCode } = await runPlugin();
  if (exitCode === 0) return stdout;
  const { failure } = await import("./failure.ts");
  const elapsedMs = performance.now() - startMs;
  const cause = `exit status ${exitCode}`;
  throw failure(path, { stdout, stderr, cause, elapsedMs });
}

function inputOf(
  { type: _type, stdin, ...others }: Invocation,
  invoker: Invoker,
): DispatchInput {
  return { ...others, stdin: () => stdin, invoker };
}
