/**
 * What a node is made of, and what it tells.
 *
 * @module
 */

import { CniError, ErrorCode } from "../cni/error.ts";
import {
  AttachmentLocks,
  lockFolderOf,
  NetworkRuntime,
  type NetworkRuntimeOptions,
} from "../cni/libcni/mod.ts";
import { createLog } from "../cni/log.ts";
import { writeStderr } from "../cni/stdio.ts";
import { CURRENT_NETNS } from "../ffi/netns.ts";
import { Cidr } from "../net/cidr.ts";
import type { SkippedFile } from "./choose_network.ts";
import { DefaultNetwork } from "./default_network.ts";
import { buildLoopback } from "./loopback.ts";
import type { Node } from "./node.ts";
import type { PodNetworkError, PodOperation } from "./pod_network_error.ts";

/** What a node decides once. */
export interface NodeNetworkOptions extends
  Pick<
    NetworkRuntimeOptions,
    "env" | "pluginDirs" | "invoker" | "hostNetns" | "onStderr"
  > {
  /** The folder with the networks' configurations, such as /etc/cni/net.d. */
  readonly confDir: string;
  /**
   * Where attachments are remembered, and what locks them; /var/lib/cni by
   * default. Garbage collection takes all that is there for the node's, so do
   * not share it with another runtime.
   */
  readonly cacheDir?: string;
  /** The node's PodCIDR, or two of them with a comma between. */
  readonly podCidr?: string;
  /** The same as a list, one of a family. */
  readonly podCidrs?: readonly string[];
  /** Whether pods are attached to their loopback first; true by default. */
  readonly loopback?: boolean;
  /** Told of each operation on a pod when it has ended; for metrics. */
  readonly onOperation?: (operation: EndedOperation) => void;
}

/** An operation that has ended. */
export interface EndedOperation {
  /** Which one. */
  readonly operation: PodOperation;
  /** How long it took, waiting for its turn included. */
  readonly milliseconds: number;
  /** Absent if it succeeded. */
  readonly error?: PodNetworkError;
}

/** When to give up on an operation. */
export interface PodOptions {
  /** Ends it. */
  readonly signal?: AbortSignal | undefined;
  /** How long it may take, waiting for its turn included; 220 s by default. */
  readonly timeoutMs?: number | undefined;
}

/** Whether pods can be set up. */
export interface NodeStatus {
  /** Whether they can. */
  readonly isReady: boolean;
  /** Why not, in one sentence; absent if they can. */
  readonly reason?: string;
  /** The same with its code: 50, or 51 if pods that are set up may suffer. */
  readonly error?: CniError;
  /** The default network and its file, if there is one. */
  readonly network?: { readonly name: string; readonly path: string };
  /** Files before that which cannot be used, and why. */
  readonly skipped: readonly SkippedFile[];
}

/**
 * Parses PodCIDRs; an empty text is none.
 *
 * @throws {CniError} 7 If one is none
 */
export function parsePodCidrs(texts: readonly string[]): Cidr[] {
  return texts.map((text) => text.trim()).filter((text) => text !== "")
    .map((text) => {
      try {
        return Cidr.parse(text).masked();
      } catch (cause) {
        throw new CniError(
          ErrorCode.InvalidNetworkConfig,
          `Cannot use PodCIDR "${text}"`,
          { cause },
        );
      }
    });
}

/**
 * Makes what the operations work with.
 *
 * @param getPodCidrs Answers those that are known when an operation asks
 */
export function createNode(
  options: NodeNetworkOptions,
  getPodCidrs: () => readonly Cidr[],
): Node {
  const { confDir, pluginDirs, hostNetns = CURRENT_NETNS } = options;
  const { onStderr = writeStderr, cacheDir } = options;
  const log = createLog({ component: "node-network" }, onStderr);
  // The locks are held around a pod's networks, not around each one of them.
  const runtime = new NetworkRuntime(options);
  const loopback = options.loopback ?? true ? buildLoopback() : undefined;
  const source = { confDir, pluginDirs, runtime, loopback };
  return {
    confDir,
    defaultNetwork: new DefaultNetwork(source, log),
    loopback,
    get podCidrs(): readonly Cidr[] {
      return getPodCidrs();
    },
    runtime,
    locks: new AttachmentLocks(lockFolderOf(cacheDir)),
    hostNetns,
    log,
  };
}
