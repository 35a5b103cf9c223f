/**
 * Keys without effect in configurations of dhcp.
 *
 * @module
 */

import { objectOf } from "../../base/json/json.ts";
import type { Linted } from "../../metadata/plugin_metadata.ts";
import { keyWarningAt, type Problem } from "../../metadata/problem.ts";

/** See {@linkcode Lint}. */
export function lint({ conf }: Linted): Problem[] {
  const { family } = objectOf(conf["ipam"]);
  return conf["conflictCheck"] === true && family === 6
    ? [
      keyWarningAt(
        ["conflictCheck"],
        "no effect: the kernel itself checks addresses from a DHCPv6 server",
        "no-effect",
      ),
    ]
    : [];
}
