/**
 * Metadata of tuning for tools. Its calls never load this file.
 *
 * @module
 */

import { findValue, objectOf } from "../../base/json/json.ts";
import {
  type BuiltInMetadata,
  type Linted,
} from "../../metadata/plugin_metadata.ts";
import { describeError } from "../../base/error.ts";
import { errorAt, type Problem, warningAt } from "../../metadata/problem.ts";
import { sysctlOf } from "./sysctls.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "tuning",
  kind: "chained",
  status: "stable",
  mayRepeat: true,
  traits: ["sets requested MAC"],
  // The name in OpenShift Virtualization.
  otherTypes: ["cnv-tuning"],
  sysctls: (conf) =>
    Object.keys(objectOf(findValue(conf, "sysctl"))).map(
      (name) =>
        name.replaceAll(".", "/").replace(/\/(conf|neigh)\/[^/]+\//, "/$1/lo/"),
    ),
  lint,
  keys: async () => (await import("./keys.ts")).keys,
  orphans: async () => (await import("./orphans.ts")).orphans,
};

/** See {@linkcode Lint}. */
function lint({ conf }: Linted): Problem[] {
  const sysctls = objectOf(findValue(conf, "sysctl"));
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
