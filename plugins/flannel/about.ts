/**
 * Facts about flannel for tools.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { decode } from "../../base/json/json.ts";
import type { About } from "../../cni/tools/about.ts";
import { buildDelegateConf } from "./delegate_conf.ts";
import { lint } from "./lint.ts";
import { flannelSchema } from "./schema.ts";
import { readSubnetEnv, SUBNET_FILE } from "./subnet_env.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "flannel",
  kind: "meta",
  status: "stable",
  install: { onRequest: true, isCopy: true },
  ipam: "possible",
  makesInterface: true,
  runs: { key: "delegate", type: "bridge", ipamType: "host-local" },
  hasDeepStatus: true,
  lint,
  // Without flanneld's file there is none yet, which STATUS says.
  onNode: (conf, network) =>
    ifPossible(() => {
      const config = decode(flannelSchema(), conf, "flannel");
      const env = readSubnetEnv(config.subnetFile || SUBNET_FILE);
      return buildDelegateConf({ config, network }, env);
    }),
};
