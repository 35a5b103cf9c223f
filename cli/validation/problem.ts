/**
 * Problems of a configuration.
 *
 * @module
 */

import { formatPath } from "../../cni/json.ts";

/** Error: the network cannot work. Warning: it works, but probably not as intended. */
export type Severity = "error" | "warning";

/** A problem. */
export interface Problem {
  readonly severity: Severity;
  /** Its place: `plugins[0].ipam.subnet`; "" for the whole configuration. */
  readonly path: string;
  /** A sentence without a full stop. */
  readonly message: string;
}

/** A place: keys and indices. */
export type Place = readonly PropertyKey[];

/** Creates an error. */
export function errorAt(place: Place, message: string): Problem {
  return { severity: "error", path: formatPath(place), message };
}

/** Creates a warning. */
export function warningAt(place: Place, message: string): Problem {
  return { severity: "warning", path: formatPath(place), message };
}
