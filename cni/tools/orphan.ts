/**
 * What is left of containers that are gone: the values that a search finds.
 *
 * @module
 */

import type { Ip } from "../../net/ip.ts";

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
