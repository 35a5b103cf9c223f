/**
 * What plugins leave of containers that are gone, and how a search for it asks
 * them.
 *
 * @module
 */

import type { Log } from "../../base/log/log.ts";
import type { MaybePromise } from "../../base/waiting.ts";
import type { CallContext, Invoker } from "../call/context.ts";
import type { Ip } from "../../net/ip.ts";

/** Known facts about a node's living containers. */
export interface Proofs {
  /** Whether a CNI plugin is running on this host, of any program. */
  readonly isBusy: boolean;
  /** Reports whether a path leads to a container's namespace. */
  isAlive(netns: string): boolean;
  /**
   * Explains why a leftover's container is gone.
   *
   * @returns Undefined if it is alive, or nothing proves that it is gone
   */
  findProof(claim: Claim): string | undefined;
}

/** A search that runs, as a plugin sees it. */
export interface LeftoverSearch {
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
  /** Known facts about the containers. */
  readonly evidence: Proofs;
  /** Gathers evidence again. */
  readonly renew: () => Proofs;
  /** Where the plugin's state is: what configurations name, and the default. */
  readonly places: readonly string[];
  /** Directories with plugins in search order: CNI_PATH. */
  readonly pluginDirs: readonly string[];
}

/** A lease that tells its container. */
export interface FoundLease {
  /** The container's ID. */
  readonly container: string;
  /** The address, without a prefix length. */
  readonly address: string;
  /** When the lease was made. */
  readonly since: Date;
}

/** Finds leftovers. */
export type LeftoverFinder = (
  search: LeftoverSearch,
) => MaybePromise<Orphan[]>;

/** A plugin's possible leftovers on a node. */
export interface Leftovers {
  /** Where the plugin keeps state: the key that names it, and the default. */
  readonly state?: {
    readonly key: string;
    readonly usual: string;
    /** Whether it is a cache of attachments, as runtimes have. */
    readonly isCache?: boolean;
  };
  /** Finders; one that several plugins have runs once. */
  readonly finders?: readonly LeftoverFinder[];
  /** Lists leases, which show that containers are alive. */
  readonly listLeases?: (places: readonly string[]) => FoundLease[];
}

/** The kinds of leftovers. */
export const ORPHAN_KINDS = [
  "attachment",
  "lease",
  "record",
  "lock",
  "link",
  "nftables",
  "iptables",
] as const;

/** The kind of a leftover. */
export type OrphanKind = typeof ORPHAN_KINDS[number];

/** A leftover of a container that is gone. */
export interface Orphan {
  /** The kind of leftover. */
  readonly kind: OrphanKind;
  /** The file, link, chain or table, for people. */
  readonly where: string;
  /** The container's ID; "" if unknown. */
  readonly container: string;
  /** The network's name; "" if unknown. */
  readonly network: string;
  /** Why its container is known to be gone. */
  readonly why: string;
  /**
   * Removes it. Removing it twice is fine.
   *
   * @throws {Error} If it cannot be removed
   */
  remove(): Promise<void>;
}

/** A leftover's statement about its container. */
export interface Claim {
  /** "" if unknown. */
  readonly container?: string;
  /** Whether the container's ID may be cut off at its end. */
  readonly isCut?: boolean;
  /** The container's addresses. */
  readonly addresses?: readonly Ip[];
  /** Path of the container's namespace; "" if unknown. */
  readonly netns?: string;
  /** When the leftover was made or last changed. */
  readonly since?: Date | undefined;
}
