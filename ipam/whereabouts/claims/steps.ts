/**
 * The states of a claim to an address, and the transitions between them. The claimer
 * has a method for each state, which the compiler checks against this table.
 *
 * ```
 * reading ─┬─→ adopting ──┬─→ recorded ─┬────────────────→ done
 *          ├─→ taking ────┤             └─→ reserving ─────↗
 *          └─→ restoring ─┘
 * ```
 *
 * @module
 */

/** For each state, the possible next states, and the event that leads there. */
export const CLAIM_STEPS = {
  /** Reads the pool, and creates it if it does not exist. */
  reading: {
    adopting:
      "the pod's interface has a record: an earlier sandbox's, or one " +
      "that this call has written without getting the answer; or its " +
      "IPAMClaim has one",
    taking: "it has none",
    restoring: "the pod requests an address, and has at most a record of a " +
      "different one, by an earlier sandbox; or the IPAMClaim has an address " +
      "whose record was lost",
    waiting: "the pool is deleted again",
  },
  /** Replaces the record of the pod's earlier sandbox with this sandbox's record. */
  adopting: {
    recorded: "the record is this sandbox's",
    waiting: "another writer has changed it",
  },
  /** Adds a record for a free address. If none is free, the claim fails. */
  taking: {
    recorded: "the record is added",
    yielding:
      "another ADD of the same interface came first: its address counts",
    waiting: "another writer has taken the address",
  },
  /**
   * Adds the record of a requested address, or restores the record of a claim's address.
   * If the address already belongs to another attachment, or is not in the
   * range, the claim fails.
   */
  restoring: {
    recorded: "the record is added",
    waiting: "another writer has changed the pool",
  },
  /** An address is unique in its range, or in all ranges of the network name. */
  recorded: {
    done: "the range is enough",
    reserving: "other ranges may overlap",
  },
  /** Creates the reservation, unless an adopted record has its reservation. */
  reserving: {
    done: "it is this interface's",
    replacing:
      "it is an earlier sandbox's, and the record is new: the DEL of " +
      "that sandbox has removed the old record, and deletes the reservation next",
    leaving: "it is another attachment's",
    pausing: "it existed, and is gone; or the answer was lost",
  },
  /** Deletes the earlier sandbox's reservation. */
  replacing: { reserving: "it is deleted" },
  /** Waits before the reservation is tried again. */
  pausing: { reserving: "the time is over" },
  /** Gives the record back, and lists the reserved addresses. */
  leaving: {
    reading: "the reservation was not known: the next address may be free",
    waiting: "it was known",
  },
  /** Gives the record back. */
  yielding: { waiting: "it is removed" },
  /** Waits before the pool is read again, longer after each conflict. */
  waiting: { reading: "the time is over" },
} as const;

/** A state of a claim that is not done. */
export type ClaimState = keyof typeof CLAIM_STEPS;

/** The possible next states of a state. */
export type NextState<S extends ClaimState> =
  & keyof (typeof CLAIM_STEPS)[S]
  & (ClaimState | "done");
