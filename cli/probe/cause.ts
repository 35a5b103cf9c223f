/**
 * Why a packet is lost.
 *
 * @module
 */

/** How the operator removes a cause, or inspects it. */
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
  /** Whether it shows only where packets are lost: a finding might name the reason. */
  readonly isSymptom?: boolean | undefined;
  /** Whether a rule or filter drops the packets on purpose: it is not a problem. */
  readonly isIntended?: boolean | undefined;
}

/** Advice about a rule or filter of a program that applies NetworkPolicies. */
export const POLICY_ADVICE =
  "a network policy drops this on purpose; if the program that made the rule " +
  "is no longer installed, remove its rules";

/**
 * Describes how to remove an object that a third-party program has added.
 *
 * @param command The command line that removes it
 * @param look The command line that shows it
 */
export function removal(command: string, look: string): Remedy {
  const advice = "and remove it from the configuration of the program that " +
    "added it, or it will return";
  return { command, look, advice };
}
