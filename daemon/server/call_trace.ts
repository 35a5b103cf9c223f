/**
 * What follows the daemon's calls, for traces.
 *
 * @module
 */

import type { LinkDeletion } from "../../cni/call/link_deletion.ts";
import type { Call, EndedCall, Outcome } from "./calls.ts";

/** Follows calls. */
export interface CallTrace {
  /** Runs a call by calling `run`: what is done meanwhile is part of it. */
  readonly around: (
    call: Call,
    run: () => Promise<Outcome>,
  ) => Promise<Outcome>;
  /** Called in a call, when it has ended. */
  readonly onEnded: (call: EndedCall) => void;
  /** Follows the deletion of links, which happens on another thread. */
  readonly linkDeletion: (deletion: LinkDeletion) => LinkDeletion;
}
