/**
 * Follows the daemon's calls, for traces.
 *
 * @module
 */

import type { LinkDeletion } from "../../cni/call/link_deletion.ts";
import type { CallsOptions, EndedCall } from "./calls.ts";

/** Follows calls. */
export interface CallTrace {
  /** See {@linkcode CallsOptions.around}. */
  readonly around: NonNullable<CallsOptions["around"]>;
  /** Called in a call, when it has ended. */
  readonly onEnded: (call: EndedCall) => void;
  /** Follows the deletion of links, which happens on another thread. */
  readonly linkDeletion: (deletion: LinkDeletion) => LinkDeletion;
}
