/**
 * Tests of plugins on the real kernel, in network namespaces that are thrown
 * away afterwards. They need root, iproute2, and `deno test --allow-all`.
 *
 * ```ts
 * import { rootTest, TestHosts } from "@cni/plugins/testing";
 *
 * rootTest("ptp.add() gives the container an address", async () => {
 *   using hosts = TestHosts.create();
 *   const ipam = hosts.hostLocal("10.1.2.0/24");
 *   const config = { cniVersion: "1.1.0", name: "net1", type: "ptp", ipam };
 *   const { json } = await hosts.run("ptp", "ADD", config);
 *   if (json.ips[0].address !== "10.1.2.2/24") throw new Error("wrong address");
 * });
 * ```
 *
 * @module
 */

export { type CallOptions, type CallOutput, TestHosts } from "./test_hosts.ts";

// Tests that hold for every plugin.
export {
  type ConformOptions,
  conformPlugin,
  type PluginKeys,
} from "./conform_plugin.ts";

// What is there, as iproute2 sees it.
export { canPing, ipJson, runIn, type Snapshot, snapshot } from "./ip_json.ts";

// Tests that are skipped, and say so, where they cannot run.
export {
  type Needs,
  requireRoot,
  rootTest,
  type TestBody,
  type TestHeader,
} from "./capabilities.ts";
