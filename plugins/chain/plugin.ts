/**
 * chain: runs several plugins in one process; a runtime runs each plugin of a
 * list in a process of its own.
 *
 * ```
 * runtime ──▶ chain ─┬─▶ ptp ─┬─▶ host-local
 *             one    ├─▶ bandwidth
 *             exec   └─▶ sbr
 * ```
 *
 * Plugins that are this very executable run in this process, others as separate
 * processes, which go on if this one is killed: DEL waits for them. The chain
 * itself creates nothing and keeps no records.
 *
 * @module
 */

import {
  type Call,
  definePlugin,
  type ForeignResult,
  type Plugin,
} from "../../cni/plugin.ts";
import { throwAll } from "../../cni/call/rollback.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import type { ChainConfig } from "./schema.ts";
import type { Links } from "./links.ts";

/** The plugin. */
export const chain: Plugin<ChainConfig> = definePlugin({
  name: "chain",
  versions: SPEC_VERSIONS,
  configSchema: async () => (await import("./schema.ts")).chainSchema(),

  add: (call) =>
    operate(call, async (links): Promise<ForeignResult> => {
      const { addPlugins } = await import("../../libcni/add.ts");
      const { RunningAdd } = await import("./running_add.ts");
      await warnOfMistakes(call, links);
      const { network, conf, options } = links;
      using running = new RunningAdd(call);
      // An outer chain has the lock.
      const { onProcess = () => running.begin() } = call.context;
      const context = { ...call.context, onProcess };
      const tools = { ...links.tools, context };
      // The runtime's DEL removes the remains of a failure.
      return await addPlugins(tools, network, conf, options);
    }),

  check: (call) =>
    operate(call, async ({ tools, network, conf, options }) => {
      const { checkPlugins } = await import("../../libcni/check.ts");
      await checkPlugins(tools, network, conf, options);
    }),

  del: (call) =>
    operate(call, async ({ tools, network, conf, options }) => {
      const { delPlugins } = await import("../../libcni/del.ts");
      const { waitForAdd } = await import("./running_add.ts");
      await waitForAdd(call);
      await delPlugins(tools, network, conf, options);
    }),

  gc: (call) =>
    operate(call, async ({ tools, network }) => {
      const { gcPlugins } = await import("../../libcni/gc.ts");
      const { sweepLocks } = await import("./running_add.ts");
      const { validAttachments, signal } = call;
      const options = { validAttachments, signal };
      sweepLocks();
      const failures = await gcPlugins(tools, network, options);
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

/** Reads the chain and runs a command with it; loads the modules only then. */
async function operate<T>(
  call: Call<ChainConfig>,
  operation: (links: Links) => Promise<T>,
): Promise<T> {
  const { readLinks } = await import("./links.ts");
  const links = readLinks(call);
  try {
    return await operation(links);
  } catch (error) {
    const { describeFailedPlugin } = await import("../../libcni/operation.ts");
    throw describeFailedPlugin(error);
  }
}

async function warnOfMistakes(
  call: Call<ChainConfig>,
  { network }: Links,
): Promise<void> {
  const { listMistakes } = await import("./mistakes.ts");
  for (const mistake of listMistakes(call.config, network.plugins)) {
    call.log.warn("Mistake in the configuration", { mistake });
  }
}
