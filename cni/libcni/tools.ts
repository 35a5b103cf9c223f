/**
 * What a runtime works with, whatever the network.
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

/** What a runtime decides once. */
export interface NetworkRuntimeOptions {
  /** Folders with plugins, in the order in which they are searched: CNI_PATH. */
  readonly pluginDirs: readonly string[];
  /** What plugins inherit; the CNI_* variables replace those in it. */
  readonly env: Environment;
  /** Where attachments are remembered; /var/lib/cni by default. */
  readonly cacheDir?: string;
  /** Runs plugins; as processes by default. */
  readonly invoker?: Invoker;
  /** Path of the namespace that stands for the host; this thread's by default. */
  readonly hostNetns?: string;
  /** Takes what plugins and the runtime log; stderr by default. */
  readonly onStderr?: (text: string) => void;
  /** Called before a process is started for a plugin. */
  readonly onProcess?: (() => Promise<void>) | undefined;
  /**
   * Keeps ADD, CHECK and DEL of one container apart, and GC from them all. By
   * default nothing does: a plugin that is a runtime itself, as multus is, would
   * wait for the one that called it.
   */
  readonly locks?: Pick<AttachmentLocks, "lockContainer" | "lockExclusively">;
}

/** What runs plugins, by a runtime or a plugin that does as one does. */
export interface PluginTools {
  /** Folders with plugins, in the order in which they are searched. */
  readonly pluginDirs: readonly string[];
  /** What plugins inherit; the CNI_* variables replace those in it. */
  readonly env: Environment;
  readonly invoker: Invoker;
  /** Path of the namespace that stands for the host. */
  readonly hostNetns: string;
  /** Takes what plugins log. */
  readonly onStderr: (text: string) => void;
  /** What the runtime itself logs, in the same place. */
  readonly log: Log;
  /** Called before a process is started for a plugin. */
  readonly onProcess?: (() => Promise<void>) | undefined;
}

/** What a runtime works with. */
export interface Tools extends PluginTools {
  readonly cache: AttachmentCache;
  readonly locks: NetworkRuntimeOptions["locks"];
}

/** Fills in what the options leave out. */
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

/** What cannot be said keeps nothing from being done. */
function tryWriteStderr(text: string): void {
  writeStderr(text);
}
