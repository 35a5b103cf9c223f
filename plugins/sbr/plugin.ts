/**
 * sbr: source based routing. Packets from the addresses of an interface leave
 * by that interface, whatever the container's other networks are; so a reply
 * goes back the way the request came.
 *
 * ```
 *   container with eth0 (10.1.2.5/24) and, chained with sbr, net1 (10.9.0.5/24)
 *
 *   rules                             table 100
 *     32765: from 10.9.0.5 lookup 100   10.9.0.0/24 dev net1
 *     32766: from all lookup main       default via 10.9.0.1 dev net1
 *
 *                                     table main
 *                                       10.1.2.0/24 dev eth0
 *                                       default via 10.1.2.1 dev eth0
 * ```
 *
 * DEL leaves nothing behind: the routes return to table main, and routes of the
 * interface that did not exist before ADD are deleted.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import type { IpConfig, Result } from "../../cni/result/result.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import {
  lockSandbox,
  lockSandboxIfPossible,
} from "../parts/sandbox/lock_netns.ts";
import {
  isOfAnotherPod,
  requirePrevResult,
} from "../parts/sandbox/prev_result.ts";
import { findSandbox, openSandbox } from "../parts/sandbox/sandbox.ts";
import type { SbrConfig } from "./schema.ts";
import { sourcesOf } from "./routing.ts";

/** The plugin. Source: containernetworking/plugins plugins/meta/sbr/main.go. */
export const sbr: Plugin<SbrConfig> = definePlugin({
  name: "sbr",
  versions: SPEC_VERSIONS,
  configSchema: async () => (await import("./schema.ts")).sbrSchema(),

  async add(call): Promise<Result> {
    const prevResult = requirePrevResult(call, NOT_CHAINED);
    const ips = requireSources(prevResult, call);
    const { routeBySource } = await import("./add.ts");
    using sandbox = openSandbox(call.args);
    // Nothing waits from here on, so the lock is held only briefly.
    using _lock = await lockSandbox(sandbox, call);
    routeBySource(sandbox, ips, call);
    return prevResult;
  },

  async check(call): Promise<void> {
    const prevResult = requirePrevResult(call, NOT_CHAINED);
    const ips = requireSources(prevResult, call);
    const { checkSources } = await import("./check.ts");
    using sandbox = openSandbox(call.args);
    using _lock = await lockSandbox(sandbox, call);
    const { args, config } = call;
    await checkSources(sandbox, args, { prevResult, ips, config });
  },

  async repair(call, scope): Promise<void> {
    if (!scope.sandbox) return;
    const prevResult = requirePrevResult(call, NOT_CHAINED);
    const ips = requireSources(prevResult, call);
    const { repairSources } = await import("./repair.ts");
    using sandbox = openSandbox(call.args);
    using _lock = await lockSandbox(sandbox, call);
    repairSources(sandbox, ips, call);
  },

  async del(call): Promise<void> {
    const { releaseSources } = await import("./release.ts");
    using sandbox = findSandbox(call);
    if (sandbox === undefined) return;
    using _lock = await lockSandboxIfPossible(sandbox, call);
    if (isOfAnotherPod(sandbox, call)) return;
    releaseSources(sandbox, call);
  },
});

/** Error text for a call without prevResult; clients compare it verbatim. */
const NOT_CHAINED = "This plugin must be called as chained plugin";

/** @throws {CniError} 7 if the interface has no address */
function requireSources(
  prevResult: Result,
  { args }: Call<SbrConfig>,
): IpConfig[] {
  const ips = sourcesOf(prevResult, args);
  if (ips.length > 0) return ips;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `No IP addresses supplied on interface: ${args.ifName}`,
  );
}
