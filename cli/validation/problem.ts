/**
 * Problems of a configuration.
 *
 * @module
 */

import { formatPath } from "../../cni/json.ts";

/** An error: the network cannot work. A warning: it works, but hardly as meant. */
export type Severity = "error" | "warning";

/** Something that is wrong. */
export interface Problem {
  readonly severity: Severity;
  /** Where: `plugins[0].ipam.subnet`; "" for the whole configuration. */
  readonly path: string;
  /** What, in a sentence without a full stop. */
  readonly message: string;
}

/** Where something is: keys and indices. */
export type Place = readonly PropertyKey[];

/** Makes an error. */
export function errorAt(place: Place, message: string): Problem {
  return { severity: "error", path: formatPath(place), message };
}

/** Makes a warning. */
export function warningAt(place: Place, message: string): Problem {
  return { severity: "warning", path: formatPath(place), message };
}
