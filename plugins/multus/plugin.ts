/**
 * multus: attaches a pod to several networks.
 *
 * ```
 * runtime ──→ multus ──→ delegates[0], or clusterNetwork      eth0
 *                  ├───→ k8s.v1.cni.cncf.io/networks: a       net1
 *                  └───→                              b       net2
 * ```
 *
 * The runtime calls multus like any plugin. For each network, multus then acts as a
 * runtime: it runs the network's plugins, returns the first network's result, and
 * records the attachments for DEL. A pod's annotations name its additional networks;
 * objects of the Kubernetes API define them.
 *
 * Plugins that belong to this executable run in this process.
 *
 * Source: k8snetworkplumbingwg/multus-cni; Kubernetes Network Custom Resource
 * Definition De-facto Standard 1.3.
 *
 * @module
 */

import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import type { MultusConfig } from "./model/config.ts";
import type { OpenCluster } from "./pod/cluster.ts";
import type { Session } from "./operations/session.ts";

/** Dependencies that replace the defaults of a separate process. */
export interface MultusOptions {
  /**
   * Opens the cluster of a call; by default, with a separate client for each call.
   */
  readonly openCluster?: OpenCluster | undefined;
}

/** Creates the plugin, for a process of a single call or for a daemon. */
export function createMultus(
  { openCluster }: MultusOptions = {},
): Plugin<MultusConfig> {
  const operate = async <T>(
    call: Call<MultusConfig>,
    load: () => Promise<(session: Session) => Promise<T>>,
  ): Promise<T> => {
    const { runInSession } = await import("./operations/session.ts");
    return await runInSession(call, await load(), openCluster);
  };
  return definePlugin<MultusConfig>({
    name: "multus",
    versions: SPEC_VERSIONS,
    isRuntime: true,
    configSchema: async () =>
      (await import("./model/config.ts")).multusSchema(),
    add: (call) =>
      operate(call, async () => (await import("./operations/add.ts")).add),
    check: (call) =>
      operate(call, async () => (await import("./operations/check.ts")).check),
    async del(call): Promise<void> {
      const { isRecursion } = await import("./model/recursion.ts");
      // An error would keep the pod from being deleted.
      if (isRecursion(call.context.env, call.args)) return;
      await operate(
        call,
        async () => (await import("./operations/del.ts")).del,
      );
    },
    gc: (call) =>
      operate(call, async () => (await import("./operations/gc.ts")).gc),
    status: (call) =>
      operate(
        call,
        async () => (await import("./operations/status.ts")).status,
      ),
  });
}

/** The plugin, for a process that runs a single call. */
export const multus: Plugin<MultusConfig> = createMultus();
