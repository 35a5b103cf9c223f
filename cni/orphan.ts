/**
 * What is left of containers that are gone: the values that a search finds.
 *
 * @module
 */

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
