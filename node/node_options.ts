/**
 * Options and reports of a node.
 *
 * @module
 */

import { CniError, ErrorCode } from "../base/error.ts";
import {
  AttachmentLocks,
  lockDirectoryOf,
  NetworkRuntime,
  type NetworkRuntimeOptions,
} from "../libcni/mod.ts";
import { createLog } from "../base/log/log.ts";
import { writeStderr } from "../base/process/stdio.ts";
import { OWN_NETNS } from "../cni/call/own_netns.ts";
import { Cidr } from "../net/cidr.ts";
import type { SkippedFile } from "./choose_network.ts";
import { DefaultNetwork } from "./default_network.ts";
import { buildLoopback, type NodeTools } from "./node.ts";
import type { PodNetworkError, PodOperation } from "./pod.ts";

/** Options of a node. */
export interface NodeNetworkOptions extends
  Pick<
    NetworkRuntimeOptions,
    "env" | "pluginDirs" | "invoker" | "hostNetns" | "onStderr"
  > {
  /** The directory with network configurations, such as /etc/cni/net.d. */
  readonly confDir: string;
  /**
   * Directory of the attachment cache and its locks; default /var/lib/cni.
   * Garbage collection treats everything there as this node's, so do not share
   * it with another runtime.
   */
  readonly cacheDir?: string;
  /** The node's PodCIDR, or two separated by a comma. */
  readonly podCidr?: string;
  /** The same as a list, one per family. */
  readonly podCidrs?: readonly string[];
  /** Whether pods are attached to their loopback first; true by default. */
  readonly loopback?: boolean;
  /** Called after each operation on a pod; for metrics. */
  readonly onOperation?: (operation: EndedOperation) => void;
}

/** A finished operation. */
export interface EndedOperation {
  /** The operation. */
  readonly operation: PodOperation;
  /** How long it took, waiting for its turn included. */
  readonly milliseconds: number;
  /** Absent if it succeeded. */
  readonly error?: PodNetworkError;
}

/** Limits of an operation. */
export interface PodOptions {
  /** Aborts it. */
  readonly signal?: AbortSignal | undefined;
  /** How long it may take, including the wait for its turn; default 220 s. */
  readonly timeoutMs?: number | undefined;
}

/** Whether pods can be set up. */
export interface NodeStatus {
  /** Whether they can. */
  readonly isReady: boolean;
  /** Why not, in one sentence; absent if ready. */
  readonly reason?: string;
  /** The same with its code: 50, or 51 if attached pods may be affected. */
  readonly error?: CniError;
  /** The default network and its file, if there is one. */
  readonly network?: { readonly name: string; readonly path: string };
  /** Files before it that cannot be used, and why. */
  readonly skipped: readonly SkippedFile[];
}

/**
 * Parses PodCIDRs. An empty string means no PodCIDR.
 *
 * @throws {CniError} 7 If one is invalid
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
 * Builds the tools of the operations.
 *
 * @param getPodCidrs Returns the PodCIDRs known so far
 */
export function createNode(
  options: NodeNetworkOptions,
  getPodCidrs: () => readonly Cidr[],
): NodeTools {
  const { confDir, pluginDirs, hostNetns = OWN_NETNS } = options;
  const { onStderr = writeStderr, cacheDir, env } = options;
  const log = createLog({ component: "node-network" }, onStderr, env);
  // One lock covers all networks of a pod.
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
    locks: new AttachmentLocks(lockDirectoryOf(cacheDir)),
    hostNetns,
    log,
  };
}
