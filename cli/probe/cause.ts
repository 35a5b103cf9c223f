/**
 * Why a packet is lost.
 *
 * @module
 */

/** How a person finds out more about a cause, or removes it. */
export interface Remedy {
  /** The command line that removes the cause. */
  readonly command?: string | undefined;
  /** Advice for a person where no command can decide; no full stop. */
  readonly advice?: string | undefined;
  /** The command line that shows more. */
  readonly look?: string | undefined;
}

/** The cause of a lost packet. */
export interface Cause extends Remedy {
  /** The check of `cni doctor` that the cause belongs to, such as `rule-drops`. */
  readonly check: string;
  /** What the kernel shows; one sentence without a full stop. */
  readonly text: string;
  /** Whether it names only where packets are lost: a finding may name the reason. */
  readonly isSymptom?: boolean | undefined;
}

/** A rule or a filter drops packets on purpose. */
export const INTENDED = "intended";

/**
 * Describes how to remove what another program has added.
 *
 * @param command Removes it
 * @param look Shows it
 */
export function removal(command: string, look: string): Remedy {
  const advice = "and remove it from the configuration of the program that " +
    "added it, or it will return";
  return { command, look, advice };
}
