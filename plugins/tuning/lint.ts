/**
 * Mistakes in a configuration of tuning.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import { type JsonValue, objectOf } from "../../base/json/json.ts";
import { type Linted, valueOf } from "../../cni/tools/about.ts";
import { errorAt, type Problem, warningAt } from "../../cni/tools/problem.ts";
import { sysctlOf } from "./sysctls.ts";

/** See {@linkcode Lint}. */
export function lint({ conf }: Linted): Problem[] {
  const sysctls = objectOf(valueOf(conf, "sysctl") as JsonValue | undefined);
  return Object.keys(sysctls).flatMap((name) => {
    try {
      const { key } = sysctlOf(name, "", "IFNAME");
      return /[./]{2}/.test(name)
        ? [warningAt(["sysctl", name], `a part is empty: it sets "${key}"`)]
        : [];
    } catch (error) {
      return [errorAt(["sysctl", name], describeError(error))];
    }
  });
}
