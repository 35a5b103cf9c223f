/**
 * The build beyond `deno compile`: a table of steps, each of which can be left out. A
 * step that fails ends the build. The function of a step is in a file of its own, which begins with the
 * reason for it, what it gains, and how to turn it off.
 *
 * `link` makes the script that `deno compile` puts into the executable; the others
 * change the executable.
 *
 * @module
 */

import { attachCallStub } from "../stubs/call_stub.ts";
import { hideSections } from "./hide_sections.ts";
import { attachLinkerStub } from "../stubs/linker_stub.ts";
import { prelink } from "../prelink/prelink.ts";

/** A step. */
interface Named {
  /** `--no-NAME` leaves it out. */
  readonly name: string;
  /** What the executable does without it; completes a sentence. */
  readonly without: string;
}

/** A change of an executable. */
export interface Step extends Named {
  /**
   * Returns a changed copy. The same bytes always give the same result.
   *
   * @param identity Its `buildIdentity`, if a node daemon may run its calls
   */
  readonly change: (
    bytes: Uint8Array<ArrayBuffer>,
    identity?: string,
  ) => Uint8Array<ArrayBuffer>;
}

/** The step before `deno compile`, which makes a script of the chunks of a bundle. */
export const LINK: Named = {
  name: "link",
  without: "reads all of its code at each start",
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
    change: (bytes, identity) =>
      identity === undefined ? bytes : attachCallStub(bytes, identity),
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

/**
 * Applies steps to an executable.
 *
 * @throws {Error} If one fails; the message names it
 */
export function applySteps(
  bytes: Uint8Array<ArrayBuffer>,
  steps: readonly Step[],
  identity?: string,
): Uint8Array<ArrayBuffer> {
  return steps.reduce((made, { name, change }) => {
    try {
      return change(made, identity);
    } catch (cause) {
      throw new Error(`Cannot compile without --no-${name}`, { cause });
    }
  }, bytes);
}
