/**
 * Metadata of flannel for tools. Its calls never load this file.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { decode, objectOf } from "../../base/json/json.ts";
import type {
  BuiltInMetadata,
  Linted,
} from "../../metadata/plugin_metadata.ts";
import { buildDelegateConf } from "./delegate_conf.ts";
import { flannelSchema } from "./schema.ts";
import { readSubnetEnv, SUBNET_FILE } from "./subnet_env.ts";
import { errorAt, type Problem } from "../../metadata/problem.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "flannel",
  kind: "meta",
  status: "stable",
  install: { onRequest: true, isCopy: true },
  ipam: "possible",
  makesInterface: true,
  runs: { key: "delegate", type: "bridge", ipamType: "host-local" },
  hasDeepStatus: true,
  lint,
  // Without flanneld's file, there is no configuration yet, which STATUS reports.
  onNode: (conf, network) =>
    ifPossible(() => {
      const config = decode(flannelSchema(), conf, "flannel");
      const env = readSubnetEnv(config.subnetFile || SUBNET_FILE);
      return buildDelegateConf({ config, network }, env);
    }),
  keys: async () => (await import("./keys.ts")).keys,
  orphans: async () => (await import("./orphans.ts")).orphans,
};

/** See {@linkcode Lint}. */
function lint({ conf }: Linted): Problem[] {
  return objectOf(conf["delegate"])["type"] === "flannel"
    ? [errorAt(["delegate", "type"], "flannel would call itself")]
    : [];
}
