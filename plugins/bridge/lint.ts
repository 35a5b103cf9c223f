/**
 * What has no effect in a configuration of bridge.
 *
 * @module
 */

import type { Linted } from "../../cni/tools/about.ts";
import { objectOf } from "../../cni/json/json.ts";
import { keyWarningAt, type Problem } from "../../cni/tools/problem.ts";

/** See {@linkcode Lint}. */
export function lint({ conf }: Linted): Problem[] {
  const hasIpam = Boolean(objectOf(conf["ipam"])["type"]);
  return ["isGateway", "isDefaultGateway", "ipMasq", "forceAddress"]
    .filter((key) => conf[key] === true && !hasIpam)
    .map((key) => keyWarningAt([key], 'no effect without "ipam"'));
}
