/**
 * Describes links for results.
 *
 * @module
 */

import type { Interface } from "../../../cni/result/result.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";

/** Describes a link of the host for a result. */
export function describeLink({ name, mac }: Link): Interface {
  return { name, mac: mac?.toString() };
}
