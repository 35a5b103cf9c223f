/**
 * What plugins leave of deleted containers, and how a search for it asks them.
 *
 * @module
 */

import type { Log } from "../base/log/log.ts";
import type { MaybePromise } from "../base/waiting.ts";
import type { CallContext, Invoker } from "../cni/call/context.ts";
import type { AttachmentId } from "../cni/config/types.ts";
import type { Ip } from "../net/ip.ts";

/** Evidence of which containers of a node are alive. */
export interface Evidence {
  /** Whether root is running a CNI plugin of any program on this host. */
  readonly isBusy: boolean;
  /** Reports whether a path leads to a container's namespace. */
  isAlive(netns: string): boolean;
  /**
   * Finds the reason why an orphan's container is known to be deleted.
   *
   * @returns Undefined if it is alive, or there is no evidence
   */
  findReason(owner: OrphanOwner): Reason | undefined;
}

/** A running search, as a plugin sees it. */
export interface OrphanSearch {
  /** Path of the host's namespace. */
  readonly hostNetns: string;
  /** The tool's environment. */
  readonly env: CallContext["env"];
  /** Runs plugins of this project in this process. */
  readonly invoker: Invoker;
  /** Receives what is worth knowing. */
  readonly log: Log;
  /** Receives what plugins write to stderr. */
  readonly onStderr?: (text: string) => void;
  /** Ends the search. */
  readonly signal?: AbortSignal;
  /** Evidence of which containers are alive. */
  readonly evidence: Evidence;
  /** Gathers evidence again. */
  readonly renew: () => Promise<Evidence>;
  /** Where the plugin's state is: the paths in configurations, and the default. */
  readonly places: readonly string[];
  /** Directories with plugins in search order: CNI_PATH. */
  readonly pluginDirs: readonly string[];
}

/** An attachment, and the addresses that its interface has now. */
export interface LivingAttachment extends AttachmentId {
  readonly ips: readonly Ip[];
}

/** A lease that names its container. */
export interface FoundLease {
  /** The container's ID. */
  readonly container: string;
  /** The address, without a prefix length. */
  readonly address: string;
  /** When the lease was made. */
  readonly since: Date;
}

/** Finds orphans. */
export type OrphanFinder = (
  search: OrphanSearch,
) => MaybePromise<Orphan[]>;

/** A plugin's possible orphans on a node. */
export interface PluginOrphans {
  /** Where the plugin keeps state: the key that names it, and the default. */
  readonly state?: {
    readonly key: string;
    readonly usual: string;
    /** Whether it is a cache of attachments, as runtimes have. */
    readonly isCache?: boolean;
  };
  /** Finders; a finder that several plugins share runs once. */
  readonly finders?: readonly OrphanFinder[];
  /** Lists leases, which show that containers are alive. */
  readonly listLeases?: (places: readonly string[]) => FoundLease[];
}

/**
 * The kinds of orphans, in the order in which they are removed: attachments, whose
 * removal removes most other orphans, first, and leases after all objects that can
 * contain their addresses.
 */
export const ORPHAN_KINDS = [
  "attachment",
  "record",
  "route",
  "link",
  "nftables",
  "iptables",
  "lease",
  "lock",
] as const;

/** The kind of an orphan. */
export type OrphanKind = typeof ORPHAN_KINDS[number];

/** Why an orphan's container is known to be deleted. */
export interface Reason {
  /** The evidence, for people. */
  readonly why: string;
  /** What the orphan reveals about its container, if the tool has to decide. */
  readonly owner?: OrphanOwner;
}

/** A resource of a deleted container. */
export interface Orphan extends Reason {
  /** The kind of orphan. */
  readonly kind: OrphanKind;
  /** The file, route, link, chain or table, for people. */
  readonly where: string;
  /** The container's ID; "" if unknown. */
  readonly container: string;
  /** The network's name; "" if unknown. */
  readonly network: string;
  /**
   * Removes it. Removing it twice is fine.
   *
   * @throws {Error} If it cannot be removed
   */
  remove(): Promise<void>;
}

/** What an orphan reveals about the container that it belongs to. */
export interface OrphanOwner {
  /** "" if unknown. */
  readonly container?: string;
  /** Whether the container's ID may be truncated. */
  readonly isTruncated?: boolean;
  /** The container's addresses. */
  readonly addresses?: readonly Ip[];
  /** Path of the container's namespace; "" if unknown. */
  readonly netns?: string;
  /** When the orphan was made or last changed. */
  readonly since?: Date | undefined;
}
