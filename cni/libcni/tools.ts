/**
 * The options and tools of a runtime, shared by all networks.
 *
 * @module
 */

import type { Environment } from "../args.ts";
import { execInvoker } from "../invoke/exec_invoker.ts";
import type { Invoker } from "../invoke/invoker.ts";
import { createLog, type Log } from "../log.ts";
import { writeStderr } from "../stdio.ts";
import { AttachmentCache } from "./cache.ts";
import type { AttachmentLocks } from "./lock.ts";

/** Options of a runtime. */
export interface NetworkRuntimeOptions {
  /** Folders with plugins in search order: CNI_PATH. */
  readonly pluginDirs: readonly string[];
  /** The environment of plugins; the CNI_* variables are replaced. */
  readonly env: Environment;
  /** The cache folder; /var/lib/cni by default. */
  readonly cacheDir?: string;
  /** Runs plugins; starts processes by default. */
  readonly invoker?: Invoker;
  /** Path of the namespace that stands for the host; this thread's by default. */
  readonly hostNetns?: string;
  /** Receives the log of plugins and of the runtime; stderr by default. */
  readonly onStderr?: (text: string) => void;
  /** Called before a process is started for a plugin. */
  readonly onProcess?: (() => Promise<void>) | undefined;
  /**
   * Serializes ADD, CHECK and DEL of a container, and runs GC alone. By default
   * there is no locking, because a plugin that is itself a runtime, such as
   * multus, would wait for its caller.
   */
  readonly locks?: Pick<AttachmentLocks, "lockContainer" | "lockExclusively">;
}

/** The surroundings in which plugins run. */
export interface PluginTools {
  /** Folders with plugins in search order. */
  readonly pluginDirs: readonly string[];
  /** The environment of plugins; the CNI_* variables are replaced. */
  readonly env: Environment;
  readonly invoker: Invoker;
  /** Path of the namespace that stands for the host. */
  readonly hostNetns: string;
  /** Receives the log of plugins. */
  readonly onStderr: (text: string) => void;
  /** The runtime's own log, written to the same place. */
  readonly log: Log;
  /** Called before a process is started for a plugin. */
  readonly onProcess?: (() => Promise<void>) | undefined;
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
    env: options.env,
    invoker: options.invoker ?? execInvoker,
    hostNetns: options.hostNetns ?? "/proc/thread-self/ns/net",
    cache: new AttachmentCache(options.cacheDir),
    locks: options.locks,
    onStderr,
    onProcess: options.onProcess,
    log: createLog({ component: "libcni" }, onStderr),
  };
}

/** Ignores failures: logging must never stop an operation. */
function tryWriteStderr(text: string): void {
  writeStderr(text);
}
