/**
 * Metadata of debug for tools. Its calls never load this file.
 *
 * @module
 */

import type {
  BuiltInMetadata,
  Linted,
} from "../../metadata/plugin_metadata.ts";
import { refusalOf } from "./asked_for.ts";
import { dirname, normalize } from "@std/path/posix";
import { errorAt, type Problem } from "../../metadata/problem.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "debug",
  kind: "meta",
  status: "stable",
  install: { onRequest: true },
  ipam: "possible",
  runs: {},
  traits: ["records STATUS", "runs what it names"],
  hasDeepStatus: true,
  refusal: refusalOf,
  lint,
  keys: async () => (await import("./keys.ts")).keys,
};

/** The directory and the names of files that runtimes read as networks. */
const CONF_DIR = "/etc/cni/net.d", CONF_NAME = /\.(conf|conflist|json)$/;

/** See {@linkcode Lint}. */
function lint({ conf: { cniOutput } }: Linted): Problem[] {
  if (typeof cniOutput !== "string") return [];
  const path = normalize(cniOutput);
  if (dirname(path) !== CONF_DIR || !CONF_NAME.test(path)) return [];
  return [errorAt(
    ["cniOutput"],
    `runtimes read each file of ${CONF_DIR} with this ending as a network, and ` +
      "may find none if one is malformed: name a file elsewhere",
  )];
}
