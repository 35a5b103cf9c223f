/**
 * The build beyond `deno compile`: a table of steps, each of which can
 * be left out. The function of a step is in a file of its own, which begins with the
 * reason for it, what it gains, and how to turn it off.
 *
 * `link` makes the script that `deno compile` puts into the executable; the others
 * change the executable.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import { attachCallStub } from "./call_stub.ts";
import { hideSections } from "./hide_sections.ts";
import { linkChunks } from "./link.ts";
import { attachLinkerStub } from "./linker_stub.ts";
import { prelink } from "./prelink.ts";

/** Facts about an executable that steps may need. */
interface StepFacts {
  /** Its `buildIdentity`, if a node daemon may run its calls. */
  readonly build?: string;
}

/** Fields of every step. */
interface Named {
  /** `--no-NAME` leaves it out. */
  readonly name: string;
  /** What is so without it: the end of a sentence about the executable. */
  readonly without: string;
}

/** The step that makes a script of the chunks of a bundle. */
export interface LinkStep extends Named {
  readonly change: typeof linkChunks;
}

/** A change of an executable. */
export interface Step extends Named {
  /** Returns a changed copy. The same bytes always give the same result. */
  readonly change: (
    bytes: Uint8Array<ArrayBuffer>,
    facts: StepFacts,
  ) => Uint8Array<ArrayBuffer>;
}

/** The step before `deno compile`. */
export const LINK: LinkStep = {
  name: "link",
  without: "reads all of its code at each start",
  change: linkChunks,
};

/** The steps after `deno compile`, in order: what has a fixed address cannot be extended. */
export const STEPS: readonly Step[] = [
  {
    name: "linker-stub",
    without: "needs glibc on the node",
    change: attachLinkerStub,
  },
  {
    name: "call-stub",
    without: "asks a node daemon about 15 ms later",
    change: (bytes, { build }) =>
      build === undefined ? bytes : attachCallStub(bytes, { build }),
  },
  {
    name: "prelink",
    without: "starts some milliseconds later, at a random address",
    change: prelink,
  },
  {
    name: "hide-sections",
    without: "loses its program if it is stripped",
    change: hideSections,
  },
];

/** The names of all steps, in order. */
export const STEP_NAMES: readonly string[] = [LINK, ...STEPS]
  .map(({ name }) => name);

/** An executable after the steps. */
interface Changed {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Steps that are left out, with the reason. */
  readonly leftOut: readonly LeftOut[];
}

/** A step that an executable is without. */
export interface LeftOut {
  readonly step: Named;
  readonly why: string;
}

/**
 * Applies steps to an executable. A step that fails, or whose product does not
 * start, is left out.
 *
 * @param findProblem Starts an executable; returns what is wrong with it
 */
export async function applySteps(
  bytes: Uint8Array<ArrayBuffer>,
  steps: readonly Step[],
  facts: StepFacts,
  findProblem: (
    bytes: Uint8Array<ArrayBuffer>,
  ) => Promise<string | undefined>,
): Promise<Changed> {
  try {
    const all = steps.reduce((made, { change }) => change(made, facts), bytes);
    if (await findProblem(all) === undefined) {
      return { bytes: all, leftOut: [] };
    }
  } catch {
    // Found again below, with the step.
  }
  let kept = bytes;
  const leftOut: LeftOut[] = [];
  for (const step of steps) {
    try {
      const changed = step.change(kept, facts);
      if (changed === kept) continue;
      const why = await findProblem(changed);
      if (why === undefined) kept = changed;
      else leftOut.push({ step, why });
    } catch (error) {
      leftOut.push({ step, why: describeError(error) });
    }
  }
  return { bytes: kept, leftOut };
}

/** Formats a line about a step that an executable is without. */
export function formatLeftOut(path: string, { step, why }: LeftOut): string {
  return `"${path}" ${step.without} (--no-${step.name}): ${why}`;
}
