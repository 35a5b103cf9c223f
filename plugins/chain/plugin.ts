/**
 * chain: runs several plugins in a single process, whereas a runtime runs each plugin
 * of a list in a separate process.
 *
 * ```
 * runtime ──▶ chain ─┬─▶ ptp ─┬─▶ host-local
 *             one    ├─▶ bandwidth
 *             exec   └─▶ sbr
 * ```
 *
 * Plugins of this executable run in this process, other plugins as separate
 * processes, which continue if this process is killed: DEL waits for them. The chain
 * itself creates no network objects, and an attachment has a record only while ADD
 * runs and after a failure.
 *
 * @module
 */

import {
  type Call,
  definePlugin,
  type ForeignResult,
  type Plugin,
} from "../../cni/plugin.ts";
import { isNothingToUndo } from "../../cni/invoke/find.ts";
import type { CallContext, Starter } from "../../cni/call/context.ts";
import { throwAll } from "../../base/rollback.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import type { ChainConfig } from "./schema.ts";
import type { ChainInput } from "./chain_input.ts";
import type { FindToDelete } from "./running_add.ts";

/**
 * Creates the plugin.
 *
 * @param directory The directory of the records; /run/cni/chain by default
 * @param findToDelete Finds the plugins that DEL runs; by default, waits for a
 * running ADD
 */
export function createChain(
  directory?: string,
  findToDelete?: FindToDelete,
): Plugin<ChainConfig> {
  const operate: Operate = (call, operation) =>
    readAndRun(call, directory, operation);
  const undo: Undo = async (call, operation) => {
    const { findProblem } = await import("./chain_input.ts");
    const problem = findProblem(call.config);
    if (problem !== undefined) {
      const { hasRecord } = await import("./stale_records.ts");
      const isAdded = call.config.prevResult !== undefined ||
        hasRecord(call, directory);
      const chain = { type: "chain", problem, isAdded };
      if (isNothingToUndo(chain, call.log)) return;
    }
    await operate(call, operation);
  };
  return definePlugin({
    name: "chain",
    versions: SPEC_VERSIONS,
    configSchema: async () => (await import("./schema.ts")).chainSchema(),

    add: (call) =>
      operate(call, async (input): Promise<ForeignResult> => {
        const { addPlugins } = await import("../../libcni/add.ts");
        const { RunningAdd } = await import("./running_add.ts");
        await warnOfMistakes(call, input);
        const { network, conf, options, recorded } = input;
        using running = RunningAdd.begin(recorded) ??
          await (await import("./undo.ts")).beginAfterEarlier(input);
        await running.begun();
        const { steps } = running;
        const { context: outer, signal } = call;
        let isFirstToUndo: boolean | undefined;
        const context: CallContext = {
          ...outer,
          async onProcess(starting): Promise<Starter | void> {
            if (steps.isOpen(0)) {
              const { findsInterface } = await import(
                "../parts/sandbox/second_add.ts"
              );
              isFirstToUndo ??= !findsInterface(starting);
            }
            return await running.lock(() => outer.onProcess?.(starting));
          },
        };
        const tools = { ...input.tools, context };
        try {
          const added = await addPlugins(tools, network, conf, {
            ...options,
            steps,
          });
          running.finish();
          return added;
        } catch (error) {
          // The first plugin has undone its own part, unless the signal has ended its
          // process. A second ADD fails in the same way, and must not undo the first
          // ADD.
          const wasCut = signal?.aborted && isFirstToUndo;
          if (steps.isOpen(0) && !wasCut) {
            running.finish();
            throw error;
          }
          const { undoAdd } = await import("./undo.ts");
          throw await undoAdd({ ...input, tools }, steps, error);
        }
      }),

    check: (call) =>
      operate(call, async ({ tools, network, conf, options }) => {
        const { checkPlugins } = await import("../../libcni/check.ts");
        await checkPlugins(tools, network, conf, options);
      }),

    del: (call) =>
      undo(call, async (input) => {
        const find = findToDelete ??
          (await import("./running_add.ts")).findToDelete;
        const { removeLeft } = await import("./undo.ts");
        using left = await find(input.recorded);
        if (left === undefined) return;
        await removeLeft(input, left.steps, call.signal);
        // Otherwise, the addresses still need to be released.
        if (!call.context.keepsAddresses) left.remove();
      }),

    gc: (call) =>
      undo(call, async ({ tools, network }) => {
        const { gcPlugins } = await import("../../libcni/gc.ts");
        const { sweepEmpty } = await import("./running_add.ts");
        const { removeStale } = await import("./stale_records.ts");
        const { validAttachments, signal } = call;
        sweepEmpty(directory);
        const stale = await removeStale(call, createChain, directory);
        const failures = [
          ...stale.failures,
          ...await gcPlugins(tools, network, {
            validAttachments: validAttachments?.concat(stale.inUse),
            signal,
          }),
        ];
        throwAll(failures, `${failures.length} plugins failed (GC)`);
      }),

    status: (call) =>
      operate(call, async ({ tools, network }) => {
        const { checkStatus } = await import("../../libcni/status.ts");
        const { refuseMistakes } = await import("./mistakes.ts");
        refuseMistakes(call, network);
        await checkStatus(tools, network, { signal: call.signal });
      }),
  });
}

/** The plugin. */
export const chain: Plugin<ChainConfig> = createChain();

/** Runs a command with the input of a call. */
type Operate = <T>(
  call: Call<ChainConfig>,
  operation: (input: ChainInput) => Promise<T>,
) => Promise<T>;

/** Runs DEL or GC, if an ADD can have run the chain. */
type Undo = (
  call: Call<ChainConfig>,
  operation: (input: ChainInput) => Promise<void>,
) => Promise<void>;

/** Reads the chain and runs a command with it; only then loads the modules. */
async function readAndRun<T>(
  call: Call<ChainConfig>,
  directory: string | undefined,
  operation: (input: ChainInput) => Promise<T>,
): Promise<T> {
  const { readInput } = await import("./chain_input.ts");
  const input = readInput(call, directory);
  try {
    return await operation(input);
  } catch (error) {
    const { describeFailedPlugin } = await import("../../libcni/operation.ts");
    throw describeFailedPlugin(error);
  }
}

async function warnOfMistakes(
  call: Call<ChainConfig>,
  { network }: ChainInput,
): Promise<void> {
  const { listMistakes } = await import("./mistakes.ts");
  for (const mistake of listMistakes(call.config, network.plugins)) {
    call.log.warn("Mistake in the configuration", { mistake });
  }
}
