/**
 * What is missing in a configuration of whereabouts.
 *
 * @module
 */

import type { Linted } from "../../cni/tools/about.ts";
import { listOf } from "../../cni/tools/given_values.ts";
import { objectOf } from "../../cni/json/json.ts";
import { type Problem, warningAt } from "../../cni/tools/problem.ts";

/**
 * Lists problems. Capabilities, arguments and CNI_ARGS may set the addresses
 * instead.
 */
export function lint({ conf }: Linted): Problem[] {
  const ipam = objectOf(conf["ipam"]);
  const hasRange = [ipam, ...listOf(ipam["ipRanges"])]
    .some(({ range }) => range);
  if (hasRange || listOf(ipam["addresses"]).length > 0) return [];
  const problem = 'no address: neither "range" nor "ipRanges" is there';
  return [warningAt(["ipam", "range"], problem)];
}
