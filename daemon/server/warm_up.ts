/**
 * Calls that a new daemon runs in temporary namespaces, so that its code is compiled and
 * optimized before it listens.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";
import { describeError } from "../../base/error.ts";
import { ifPossible } from "../../base/files/io.ts";
import { OWN_EXECUTABLE } from "../../base/files/same_file.ts";
import {
  createInvoker,
  type PluginLookup,
} from "../../cni/invoke/in_process.ts";
import type { Log } from "../../base/log/log.ts";
import { dispatch } from "../../cni/skel.ts";
import { NetNs } from "../../ffi/netns.ts";
import { LinkRemover } from "../../plugins/parts/link/link_remover.ts";

/**
 * How many attachments to make. V8 optimizes a function that has run 2000 times; an ADD
 * then takes about half the time of the first ADDs.
 */
const ROUNDS = 100;

/** Time limit of the warm-up, in ms, for slow nodes. */
const LONGEST_MS = 2000;

/** Name of the directory with the leases and links to the executable. */
const DIRECTORY = ".warm-up";

/** The network that {@linkcode warmUp} attaches pods to. */
export interface WarmUpNetwork {
  /** The plugins of the network; the directory gets links with their names. */
  readonly types: readonly string[];
  /**
   * Returns the configuration of the plugin that the daemon calls. The plugin must write
   * only to the directory.
   */
  confOf(directory: string): { readonly type: string };
}

/** Options of {@linkcode warmUp}. */
export interface WarmUpOptions {
  /** The parent directory of {@linkcode DIRECTORY}. */
  readonly socketDir: string;
  readonly network: WarmUpNetwork;
  /** Finds plugins that run in this process. */
  readonly lookup: PluginLookup;
  readonly signal: AbortSignal;
  readonly log: Pick<Log, "info">;
  /** See {@linkcode ROUNDS}. */
  readonly rounds?: number;
  /** See {@linkcode LONGEST_MS}. */
  readonly longestMs?: number;
}

/**
 * Attaches and detaches a pod repeatedly, for about a second, in network namespaces that
 * only this process uses. Changes nothing else on the node; never throws.
 *
 * @returns How often the pod was attached
 */
export async function warmUp(options: WarmUpOptions): Promise<number> {
  const { socketDir, network, signal, log } = options;
  const { rounds = ROUNDS, longestMs = LONGEST_MS } = options;
  const directory = `${socketDir}/${DIRECTORY}`;
  const startMs = performance.now();
  let made = 0;
  try {
    makeDirectory(directory, network);
    using host = NetNs.create();
    using sandbox = NetNs.create();
    await using linkDeletion = new LinkRemover(host.path);
    const place = { directory, host, sandbox, linkDeletion };
    while (made < rounds && performance.now() - startMs < longestMs) {
      // Lets the process handle signals.
      await pause(0, signal);
      if (signal.aborted) break;
      await call("ADD", place, options);
      await call("DEL", place, options);
      made++;
    }
  } catch (error) {
    log.info("Cannot warm up", { error: describeError(error) });
  } finally {
    ifPossible(() => Deno.removeSync(directory, { recursive: true }));
  }
  const ms = (performance.now() - startMs).toFixed(0);
  log.info("warmed up", { rounds: made, ms });
  return made;
}

function makeDirectory(directory: string, { types }: WarmUpNetwork): void {
  // A daemon that was killed leaves the directory.
  ifPossible(() => Deno.removeSync(directory, { recursive: true }));
  Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
  for (const type of types) {
    Deno.symlinkSync(OWN_EXECUTABLE, `${directory}/${type}`);
  }
}

/** The environment of the calls. */
interface Place {
  readonly directory: string;
  readonly host: NetNs;
  readonly sandbox: NetNs;
  readonly linkDeletion: LinkRemover;
}

/** @throws {Error} If the call fails */
async function call(
  command: "ADD" | "DEL",
  { directory, host, sandbox, linkDeletion }: Place,
  { lookup, network, signal }: WarmUpOptions,
): Promise<void> {
  const conf = network.confOf(directory);
  const plugin = await lookup(conf.type);
  if (plugin === undefined) throw new Error(`no plugin "${conf.type}"`);
  const { stdout, exitCode } = await dispatch(plugin, {
    env: {
      CNI_COMMAND: command,
      CNI_CONTAINERID: "warm-up",
      CNI_NETNS: sandbox.path,
      CNI_IFNAME: "eth0",
      CNI_PATH: directory,
      // No log file: see `base/log/log_file.ts`.
      CNI_LOG_FILE: "stderr",
    },
    stdin: () => new TextEncoder().encode(JSON.stringify(conf)),
    invoker: createInvoker(dispatch, lookup),
    hostNetns: host.path,
    linkDeletion,
    signal,
  });
  if (exitCode !== 0) throw new Error(stdout);
}
