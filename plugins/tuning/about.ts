/**
 * Facts about tuning for tools.
 *
 * @module
 */

import { type JsonValue, objectOf } from "../../base/json/json.ts";
import { type About, valueOf } from "../../cni/tools/about.ts";
import { lint } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "tuning",
  kind: "chained",
  status: "stable",
  mayRepeat: true,
  sysctls: (conf) =>
    Object.keys(objectOf(valueOf(conf, "sysctl") as JsonValue | undefined)).map(
      (name) =>
        name.replaceAll(".", "/").replace(/\/(conf|neigh)\/[^/]+\//, "/$1/lo/"),
    ),
  lint,
};
