/**
 * What `cni doctor` finds.
 *
 * @module
 */

import type { NodeReader } from "../node/node_reader.ts";

/**
 * Error: containers have no network, or will have none. Warning: something may
 * fail, or does not work as intended. Info: a fact worth knowing.
 */
export type Severity = "error" | "warning" | "info";

/** Fixes a finding without harm to any running container. */
export interface Fix {
  /** The change, in the past tense, without a full stop. */
  readonly did: string;
  /** @throws {Error} If it cannot be fixed */
  readonly run: () => void | Promise<void>;
}

/** A problem, or a fact that the operator should know. */
export interface Finding {
  readonly severity: Severity;
  /** What is wrong, with the values that show it; one sentence without a full stop. */
  readonly message: string;
  /** The effect on containers; one sentence without a full stop. */
  readonly effect: string;
  /** The command line that resolves the finding. */
  readonly command?: string | undefined;
  /** Advice for a person where no command can decide; no full stop. */
  readonly advice?: string | undefined;
  /** The command line that shows more. */
  readonly look?: string | undefined;
  /** The part that differs between findings of the same kind, such as a pod. */
  readonly subject?: string | undefined;
  /** Absent if a person must decide. */
  readonly fix?: Fix | undefined;
  /** Whether it shows only where packets are lost: a different finding might name the cause. */
  readonly isSymptom?: boolean | undefined;
  /** The containers at the ends of each path on which packets are lost. */
  readonly about?: readonly (readonly string[])[] | undefined;
}

/** The optional parts of a finding. */
export type More = Pick<
  Finding,
  "command" | "advice" | "look" | "subject" | "fix" | "isSymptom" | "about"
>;

/** The findings of a check. */
export type Findings = readonly Finding[];

/** A check of the node. */
export interface Check {
  /** The stable code of its findings, such as `CNI0601`. Never used again. */
  readonly code: string;
  /** Names the kind of finding, such as `ip-forward`. */
  readonly name: string;
  /** A description of the finding, without a full stop. */
  readonly finds: string;
  /** Its effect on containers. This and the next three are Markdown sentences. */
  readonly effect: string;
  /** Why nodes have the problem. */
  readonly cause: string;
  /** How to see more. */
  readonly howToInspect: string;
  /** The fix, or that nothing on the node helps. */
  readonly howToFix: string;
  /**
   * Checks the node.
   *
   * @throws {Error} If the check cannot run, for instance without permission
   */
  readonly run: (node: NodeReader) => Findings | Promise<Findings>;
}

/** Creates an error. */
export function error(
  message: string,
  effect: string,
  more: More = {},
): Finding {
  return { severity: "error", message, effect, ...more };
}

/** Creates a warning. */
export function warning(
  message: string,
  effect: string,
  more: More = {},
): Finding {
  return { severity: "warning", message, effect, ...more };
}

/** Joins names for a sentence, and leaves some out if there are many. */
export function listed(names: readonly string[], most = 4): string {
  const shown = names.slice(0, most).join(", ");
  return names.length <= most
    ? shown
    : `${shown} and ${names.length - most} more`;
}

/**
 * Where the site that `deno task docs` builds is published: `homepage` of
 * package.json. Undefined while it is not.
 */
export const SITE: string | undefined = undefined;

/**
 * Returns the address of a section of the site; before the site is published, the
 * address is relative to it.
 *
 * @param page Without extension, such as `findings`
 */
export function addressOf(
  page: string,
  section: string,
  site: string | undefined = SITE,
): string {
  const path = `${page}.html#${section}`;
  return site === undefined ? path : `${site.replace(/\/$/, "")}/${path}`;
}
