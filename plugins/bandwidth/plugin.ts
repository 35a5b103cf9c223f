/**
 * bandwidth: limits what a container receives and sends. Chained behind a plugin
 * that connects the container by a veth, such as ptp or bridge.
 *
 * ```
 *     container                          host
 *   ┌────────────┐        ┌───────────────────────────────────┐
 *   │            │        │          root: tbf  ←── ingress ──┼──
 *   │  eth0 ─────┼────────┼─ vethX                            │
 *   │            │        │          ingress: redirect        │
 *   └────────────┘        │             └─→ bwpX root: tbf ───┼─→ egress
 *                         └───────────────────────────────────┘
 * ```
 *
 * Ingress is towards the container. What the container sends arrives on the
 * host's end of its cable, where the kernel has no queue for it: it is sent
 * through an intermediate functional block (IFB), which has one.
 *
 * ```json
 * {
 *   "type": "bandwidth",
 *   "capabilities": { "bandwidth": true },
 *   "ingressRate": 100000000, "ingressBurst": 10000000,
 *   "egressRate": 100000000, "egressBurst": 10000000
 * }
 * ```
 *
 * DEL leaves nothing behind.
 *
 * @module
 */

import { describeError } from "../../cni/error.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import type { Interface, Result } from "../../cni/result.ts";
import { Rollback, tryAll } from "../../cni/rollback.ts";
import { isAtLeast, listVersionsFrom } from "../../cni/version.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { aliasOf, attachmentOf } from "../parts/attachment.ts";
import { deleteOrDefer } from "../parts/deferred_links.ts";
import { readablePrevResult, requirePrevResult } from "../parts/prev_result.ts";
import { findSandbox, openSandbox } from "../parts/sandbox.ts";
import { describeLink } from "../parts/veth.ts";
import type { BandwidthConfig } from "./config.ts";
import {
  directionsOf,
  endLimits,
  limitEgress,
  limitIngress,
  warnOfSmallBursts,
} from "./directions.ts";
import { findHostEnd, getHostEnd } from "./host_end.ts";
import {
  deleteStaleIfbs,
  identifyIfb,
  type IfbPlace,
  listIfbs,
} from "./ifb.ts";
import { isUnlimited, limitsOf } from "./limits.ts";

/** The plugin. Source: containernetworking/plugins plugins/meta/bandwidth/main.go. */
export const bandwidth: Plugin<BandwidthConfig> = definePlugin({
  name: "bandwidth",
  versions: listVersionsFrom("0.3.0"),
  configSchema: async () => (await import("./config.ts")).bandwidthSchema(),

  async add(call): Promise<Result> {
    const limits = limitsOf(call.config);
    const prevResult = requirePrevResult(
      call,
      "must be called as chained plugin",
    );
    if (isUnlimited(limits)) return prevResult;
    using host = Rtnl.open(call.hostNetns);
    using sandbox = openSandbox(call.args);
    const end = getHostEnd(host, sandbox, prevResult, call.args.ifName);
    const { ingress, egress } = directionsOf(limits, end);
    warnOfSmallBursts(call.log, { ingress, egress }, end);
    const identity = await identifyIfb(attachmentOf(call));

    await using rollback = new Rollback(call.log);
    const cable = { host, end, identity, hasSandbox: true };
    if (ingress !== undefined) limitIngress(cable, ingress, rollback);
    const ifb = egress && limitEgress(cable, egress, rollback);
    rollback.commit();
    return ifb === undefined
      ? prevResult
      : withInterface(prevResult, describeLink(ifb));
  },

  async check(call): Promise<void> {
    const limits = limitsOf(call.config);
    const prevResult = requirePrevResult(
      call,
      "must be called as a chained plugin",
    );
    if (isUnlimited(limits)) return;
    using host = Rtnl.open(call.hostNetns);
    using sandbox = openSandbox(call.args);
    const end = getHostEnd(host, sandbox, prevResult, call.args.ifName);
    const { ingress, egress } = directionsOf(limits, end);
    const identity = await identifyIfb(attachmentOf(call));

    const { checkEgress, checkIngress } = await import("./check.ts");
    const cable = { host, end, identity, hasSandbox: true };
    if (ingress !== undefined) checkIngress(cable, ingress);
    if (egress !== undefined) checkEgress(cable, egress);
  },

  async del(call): Promise<void> {
    using host = Rtnl.open(call.hostNetns);
    const identity = await identifyIfb(attachmentOf(call));
    const place = { host, identity, ...findPlace(host, call) };
    await tryAll({
      // Before the IFB: what is redirected to one that is gone is lost.
      "end the limits of the host's end": () =>
        endLimits(place, (end) => isOwnEnd(end, call)),
      "delete the IFB": () => {
        for (const ifb of listIfbs(place)) deleteOrDefer(host, ifb, call);
      },
    });
  },

  gc({ hostNetns, network, validAttachments }): void {
    if (validAttachments === undefined) return;
    using host = Rtnl.open(hostNetns);
    deleteStaleIfbs(host, network, validAttachments);
  },
});

/** Adds an interface to a result, in place of one of the name. */
function withInterface(result: Result, added: Interface): Result {
  const others = result.interfaces.filter(({ name, sandbox }) =>
    sandbox || name !== added.name
  );
  return { ...result, interfaces: [...others, added] };
}

/** Finds what there still is of the cable; the IFB is found without. */
function findPlace(
  host: Rtnl,
  call: Call,
): Pick<IfbPlace, "end" | "hasSandbox"> {
  try {
    using sandbox = findSandbox(call);
    const end = sandbox && findHostEnd(host, sandbox, call.args.ifName);
    return { end, hasSandbox: sandbox !== undefined };
  } catch (error) {
    call.log.warn("Ignoring the sandbox", { problem: describeError(error) });
    return { end: undefined, hasSandbox: false };
  }
}

/**
 * Says whether a cable is this attachment's. An ADD that failed because the
 * interface's name was taken is also followed by a DEL: then it is another one's.
 * From 0.4.0 on the runtime says by prevResult that there was an ADD.
 */
function isOwnEnd({ alias, name }: Link, call: Call): boolean {
  if (alias === aliasOf(attachmentOf(call))) return true;
  const prevResult = readablePrevResult(call);
  if (prevResult === undefined) {
    return alias === undefined && !isAtLeast(call.cniVersion, "0.4.0");
  }
  return prevResult.interfaces.some((one) => !one.sandbox && one.name === name);
}
