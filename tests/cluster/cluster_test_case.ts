/**
 * Tests of a cluster: each has one of its own, and keeps its logs if it fails.
 *
 * @module
 */

import {
  allOf,
  hasCommand,
  ignoreUnless,
  isExecutable,
  type Needs,
  rootTest,
} from "../../testing/capabilities.ts";
import { needsBin } from "../_harness/executables.ts";
import { DIRECTORY } from "../_harness/kube_apiserver.ts";
import { Cluster, type ClusterOptions } from "./cluster.ts";

const PROGRAMS = [
  ...["kube-apiserver", "kube-controller-manager", "kube-scheduler"],
  ...["kubelet", "kubectl", "etcd", "containerd", "containerd-shim-runc-v2"],
  ...["ctr", "busybox"],
];

/** Skips tests where a cluster cannot run. */
export const needsCluster: Needs = allOf(
  needsBin,
  ignoreUnless(
    PROGRAMS.every((name) => isExecutable(`${DIRECTORY}/${name}`)),
    "needs the programs of `deno task test:cluster`",
  ),
  ignoreUnless(hasCommand("runc"), "needs runc"),
);

/** Where logs of failed tests are kept. */
const LOGS = decodeURIComponent(
  new URL("../../build/cluster-logs", import.meta.url).pathname,
);

/** Runs a part of a test. The first that fails ends the test. */
export type Step = (name: string, body: () => Promise<void>) => Promise<void>;

/** Registers a test that has a cluster of its own. */
export function clusterTest(
  name: string,
  { needs = needsCluster, ...options }: ClusterOptions & { needs?: Needs },
  body: (cluster: Cluster, step: Step) => Promise<void>,
): void {
  rootTest(name, needs, async (t) => {
    await using cluster = await Cluster.start(options);
    try {
      await body(cluster, async (name, run) => {
        if (!await t.step(name, run)) throw new Error(`${name}: see above`);
      });
    } catch (error) {
      const directory = `${LOGS}/${name.replace(/[^\w]+/g, "-")}`;
      cluster.keepLogs(directory);
      console.error(`${cluster.logs()}\nAll logs are in ${directory}`);
      throw error;
    }
  });
}
