/**
 * What `cni doctor` finds.
 *
 * @module
 */

import type { Node } from "./node.ts";

/**
 * Error: containers have no network, or will have none. Warning: something may
 * fail, or does not work as intended. Info: a fact worth knowing.
 */
export type Severity = "error" | "warning" | "info";

/** Mends a finding without harm to any running container. */
export interface Mend {
  /** The change, in the past tense, without a full stop. */
  readonly did: string;
  /** @throws {Error} If it cannot be mended */
  readonly run: () => void | Promise<void>;
}

/** Something that is wrong, or worth knowing. */
export interface Finding {
  readonly severity: Severity;
  /** What is wrong, with the evidence; one sentence without a full stop. */
  readonly message: string;
  /** The effect on containers; one sentence without a full stop. */
  readonly consequence: string;
  /** The command line that mends it, or shows more. */
  readonly command?: string | undefined;
  /** Absent if a person must decide. */
  readonly mend?: Mend | undefined;
}

/** Things that a check found. */
export type Findings = readonly Finding[];

/** A check of the node. */
export interface Check {
  /** Names the kind of finding, such as `ip-forward`. */
  readonly name: string;
  /** A description of the finding, without a full stop. */
  readonly finds: string;
  /**
   * Looks at the node.
   *
   * @throws {Error} If it cannot look, for instance without permission
   */
  readonly run: (node: Node) => Findings | Promise<Findings>;
}

/** Creates an error. */
export function error(
  message: string,
  consequence: string,
  more: Pick<Finding, "command" | "mend"> = {},
): Finding {
  return { severity: "error", message, consequence, ...more };
}

/** Creates a warning. */
export function warning(
  message: string,
  consequence: string,
  more: Pick<Finding, "command" | "mend"> = {},
): Finding {
  return { severity: "warning", message, consequence, ...more };
}

/** Joins names for a sentence, and leaves some out if there are many. */
export function listed(names: readonly string[], most = 4): string {
  const shown = names.slice(0, most).join(", ");
  return names.length <= most
    ? shown
    : `${shown} and ${names.length - most} more`;
}
