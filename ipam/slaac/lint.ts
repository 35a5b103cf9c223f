/**
 * Mistakes in configurations of slaac.
 *
 * @module
 */

import type { Linted } from "../../metadata/plugin_metadata.ts";
import { errorAt, keyWarningAt, type Problem } from "../../metadata/problem.ts";

/** See {@linkcode Lint}. */
export function lint({ conf }: Linted): Problem[] {
  const { type, mode } = conf;
  const isGateway = ["isGateway", "isDefaultGateway"]
    .filter((key) => type === "bridge" && conf[key] === true)
    .map((key) =>
      errorAt(
        [key],
        "slaac needs a router in the network: the bridge cannot be one",
      )
    );
  const isRouted = type === "ipvlan" && ["l3", "l3s"].includes(`${mode}`);
  return [
    ...isGateway,
    ...isRouted
      ? [
        errorAt(
          ["mode"],
          `no router advertisement arrives in mode ${mode}: use l2`,
        ),
      ]
      : [],
    ...conf["conflictCheck"] === true
      ? [
        keyWarningAt(
          ["conflictCheck"],
          "no effect: the kernel itself checks addresses from router advertisements",
          "no-effect",
        ),
      ]
      : [],
  ];
}
