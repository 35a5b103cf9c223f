/**
 * Runs a call through `dispatch()`, and undoes an ADD that is given up.
 *
 * @module
 */

import { withChangeCheck } from "../../ffi/change_check.ts";
import { JoinedSignal } from "../../base/deadline.ts";
import { withSlot } from "../../base/long_wait.ts";
import { ErrorCode } from "../../base/error.ts";
import type { Log } from "../../base/log/log.ts";
import { UNDO_MS } from "../../base/rollback.ts";
import type {
  CallContext,
  DispatchInput,
  DispatchOutput,
  Invocation,
} from "../../cni/call/context.ts";
import { type LinkDeletion, unbatched } from "../../cni/call/link_deletion.ts";
import {
  createInvoker,
  type PluginLookup,
} from "../../cni/invoke/in_process.ts";
import { dispatch } from "../../cni/skel.ts";
import { NO_DAEMON } from "../wire/daemon_socket.ts";
import {
  cancelledOutcome,
  codeOf,
  type DaemonCall,
  type Outcome,
  withPrevResult,
} from "./call.ts";
import type { RunningCall } from "./running_calls.ts";

/** How the daemon runs plugins. */
export interface RunOptions {
  /** Finds plugins that run in this process. */
  readonly lookup: PluginLookup;
  /** Path of the namespace that stands for the host. */
  readonly hostNetns: string;
  /** Deletes links of several calls together. */
  readonly linkDeletion?: LinkDeletion | undefined;
  readonly log: Pick<Log, "info" | "warn">;
  /** Receives the ID of each process that is started for a plugin. */
  readonly onChild?: ((pid: number) => void) | undefined;
  readonly onConflict?: CallContext["onConflict"];
  /** How long an undo may wait for other plugins, in ms; 30 s by default. */
  readonly undoMs?: number;
}

/**
 * Runs a call. An ADD that is given up is undone by the DEL that a runtime runs after an
 * ADD without a result, even if a DEL waits, which might not run in the daemon.
 */
export async function runCall(
  running: RunningCall,
  context: Required<Pick<CallContext, "yieldDuring">>,
  options: RunOptions,
): Promise<Outcome> {
  const { call, command, subject, startedAt, progress } = running;
  const input = {
    ...context,
    signal: progress.endSignalOf(command),
    stdin: () => call.stdin,
    startedAt,
  };
  if (command !== "ADD") {
    return await runPlugin(running, call.env, input, options);
  }
  const { output, end } = await runAdd(running, input, options);
  if (!progress.isGivenUp()) return output;
  if (end === "attached" || end === "interrupted") {
    await undo(running, output, context, options);
  }
  return cancelledOutcome(subject, progress.signal);
}

/**
 * How an ADD ended:
 *
 * - `attached`: it has attached the container
 * - `refused`: it did not attach the container, whose interface may belong to an earlier
 *   ADD
 * - `failed`: it failed on its own, and has undone its own part
 * - `interrupted`: it was given up; a program or a server for which it waited may continue
 */
type AddEnd = "attached" | "refused" | "failed" | "interrupted";

/** Runs an ADD, and determines how it ended. */
async function runAdd(
  running: RunningCall,
  input: PluginInput,
  options: RunOptions,
): Promise<{ readonly output: DispatchOutput; readonly end: AddEnd }> {
  const { call: { env }, progress: { signal } } = running;
  let isSecond = false;
  const onAttached = (): void => void (isSecond = true);
  const onProcess = watchSecondAdd(env, onAttached);
  const watched = { ...input, onAttached, onProcess };
  const output = await runPlugin(running, env, watched, options);
  const code = codeOf(output);
  if (code === 0) return { output, end: "attached" };
  const isRefused = isSecond || REFUSALS.includes(code);
  const end = isRefused ? "refused" : signal.aborted ? "interrupted" : "failed";
  return { output, end };
}

/** Codes with which plugins refuse an ADD, such as a second ADD of an attachment. */
const REFUSALS: readonly number[] = [
  ErrorCode.IncompatibleVersion,
  ErrorCode.UnsupportedField,
  ErrorCode.UnknownContainer,
  ErrorCode.InvalidEnvironment,
  ErrorCode.DecodingFailure,
  ErrorCode.InvalidNetworkConfig,
  ErrorCode.InvalidNetns,
];

/**
 * Calls a function if an ADD of a third-party plugin is about to begin although the
 * container's interface exists: an earlier ADD created it. An interface that exists
 * only afterwards may belong to the ADD that was cut off. This project's plugins
 * refuse a second ADD with one of the {@linkcode REFUSALS}.
 */
function watchSecondAdd(
  env: DaemonCall["env"],
  onAttached: () => void,
): CallContext["onProcess"] {
  return async (starting) => {
    // multus adds other interfaces, too.
    if (starting.env["CNI_IFNAME"] !== env["CNI_IFNAME"]) return;
    const { findsInterface } = await import(
      "../../plugins/parts/sandbox/second_add.ts"
    );
    if (findsInterface(starting)) onAttached();
  };
}

/** Commands that can change a later attachment of the container. */
const CHANGING: readonly string[] = ["ADD", "DEL", "GC"];

/** The input that the daemon sets for each run of a plugin, and for some runs. */
type PluginInput =
  & Pick<DispatchInput, "stdin" | "signal" | "yieldDuring">
  & Partial<DispatchInput>;

async function runPlugin(
  running: RunningCall,
  env: DaemonCall["env"],
  input: PluginInput,
  options: RunOptions,
): Promise<DispatchOutput> {
  const { plugin, onStderr, exe } = running.call;
  const { lookup, hostNetns, onChild, onConflict } = options;
  const { CNI_COMMAND: command = "" } = env;
  const check = CHANGING.includes(command)
    ? (): void => running.beforeChange()
    : undefined;
  const run = (): Promise<DispatchOutput> =>
    dispatch(plugin, {
      env: { ...env, [NO_DAEMON]: "1" },
      invoker: createInvoker(dispatch, lookup, {
        callers: exe === undefined ? [] : [exe],
        onChild,
        around: (invocation, run) => invoke(running, invocation, run),
      }),
      hostNetns,
      linkDeletion: linkDeletionFor(running, options.linkDeletion),
      onConflict,
      onStderr,
      keepsLog: true,
      ...input,
    });
  return await withSlot(input.yieldDuring, () => withChangeCheck(check, run));
}

/** Runs another plugin for a call. After ADD, the call ends if it is given up. */
async function invoke(
  running: RunningCall,
  { env: { CNI_COMMAND: command } }: Invocation,
  run: () => Promise<string>,
): Promise<string> {
  if (command === "DEL") await running.beforeDeletion();
  const output = await run();
  const { progress } = running;
  if (command === "ADD" && progress.isGivenUp()) throw progress.signal.reason;
  return output;
}

/** Deletes the links of a call together with links of other calls, unless the call is superseded. */
function linkDeletionFor(
  running: RunningCall,
  linkDeletion: LinkDeletion = unbatched,
): LinkDeletion {
  return {
    now: async (links) => {
      await running.beforeDeletion();
      await linkDeletion.now(links);
    },
    later: async (links) => {
      await running.beforeDeletion();
      await linkDeletion.later(links);
    },
  };
}

/**
 * Runs the DEL that a runtime runs after an ADD without an answer, unless the runtime
 * has already attached the container again.
 */
async function undo(
  running: RunningCall,
  { stdout, exitCode }: DispatchOutput,
  { yieldDuring }: Pick<CallContext, "yieldDuring">,
  options: RunOptions,
): Promise<void> {
  const { log, undoMs = UNDO_MS } = options;
  const { call, progress } = running;
  const container = call.env["CNI_CONTAINERID"];
  progress.enter("undoing");
  if (await running.isSuperseded()) {
    return log.info(
      "The container was attached again: the new attachment is kept",
      {
        container,
      },
    );
  }
  const hasResult = exitCode === 0 && stdout !== "";
  const stdin = hasResult ? withPrevResult(call.stdin, stdout) : call.stdin;
  const env = { ...call.env, CNI_COMMAND: "DEL" };
  using limit = new JoinedSignal(undoMs);
  const { signal } = limit;
  const input = { stdin: () => stdin, signal, yieldDuring };
  const undone = await runPlugin(running, env, input, options);
  if (undone.exitCode === 0) return;
  log.warn("Cannot undo an ADD that was cancelled", {
    plugin: call.plugin.name,
    container,
    error: undone.stdout,
  });
}
