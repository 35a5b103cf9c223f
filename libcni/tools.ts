/**
 * The options and tools of a runtime, shared by all networks.
 *
 * @module
 */

import { execInvoker } from "../cni/invoke/exec_invoker.ts";
import { createLog, type Log } from "../base/log/log.ts";
import { writeStderr } from "../base/process/stdio.ts";
import { OWN_NETNS } from "../cni/call/own_netns.ts";
import type { CallContext } from "../cni/call/context.ts";
import { AttachmentCache } from "./cache.ts";
import type { AttachmentLocks } from "./lock.ts";

/**
 * Options of a runtime: the context of its plugins, and its own. By default
 * plugins run as processes, the host is this thread's namespace, and the log of
 * plugins and of the runtime goes to stderr.
 */
export interface NetworkRuntimeOptions
  extends Partial<Omit<CallContext, "env" | "signal">> {
  /** The environment of plugins; the CNI_* variables are replaced. */
  readonly env: CallContext["env"];
  /** Directories with plugins in search order: CNI_PATH. */
  readonly pluginDirs: readonly string[];
  /** The cache directory; /var/lib/cni by default. */
  readonly cacheDir?: string;
  /**
   * Serializes ADD, CHECK and DEL of a container, and runs GC alone. By default
   * there is no locking, because a plugin that is itself a runtime, such as
   * multus, would wait for its caller.
   */
  readonly locks?: Pick<AttachmentLocks, "lockContainer" | "lockExclusively">;
}

/** A runtime's means to run plugins. */
export interface PluginTools {
  /** Directories with plugins in search order. */
  readonly pluginDirs: readonly string[];
  /** The context of plugins; the CNI_* variables are replaced. */
  readonly context: CallContext;
  /** The runtime's own log, written to the same place as the plugins'. */
  readonly log: Log;
}

/** Everything a runtime needs. */
export interface Tools extends PluginTools {
  readonly cache: AttachmentCache;
  readonly locks: NetworkRuntimeOptions["locks"];
}

/** Fills in defaults. */
export function createTools(options: NetworkRuntimeOptions): Tools {
  const { onStderr = tryWriteStderr } = options;
  return {
    pluginDirs: options.pluginDirs,
    context: {
      env: options.env,
      invoker: options.invoker ?? execInvoker,
      hostNetns: options.hostNetns ?? OWN_NETNS,
      caller: options.caller,
      onStderr,
      keepsLog: options.keepsLog,
      onProcess: options.onProcess,
      linkDeletion: options.linkDeletion,
      giveWay: options.giveWay,
    },
    cache: new AttachmentCache(options.cacheDir),
    locks: options.locks,
    log: createLog({ component: "libcni" }, onStderr, options.env),
  };
}

/** Ignores failures: logging must never stop an operation. */
function tryWriteStderr(text: string): void {
  writeStderr(text);
}
