/**
 * bandwidth: limits a container's traffic. Chained after a plugin that connects
 * the container by a veth, such as ptp or bridge.
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
 * Ingress is towards the container. The container's outgoing traffic arrives on
 * the host's end of the veth, where the kernel has no queue for it: it is
 * redirected to an intermediate functional block (IFB), which has a queue.
 *
 * DEL leaves nothing behind.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import type { MaybePromise } from "../../base/waiting.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import type { Interface, Result } from "../../cni/result/result.ts";
import { Rollback } from "../../cni/call/rollback.ts";
import { isAtLeast, listVersionsFrom } from "../../cni/version.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { aliasOf, attachmentOf } from "../parts/owner/attachment.ts";
import { deleteLater, deleteNow } from "../parts/link/delete_links.ts";
import {
  readablePrevResult,
  requirePrevResult,
} from "../parts/sandbox/prev_result.ts";
import { findSandbox, openSandbox } from "../parts/sandbox/sandbox.ts";
import { describeLink } from "../parts/link/veth.ts";
import type { BandwidthConfig } from "./schema.ts";
import {
  type Directions,
  directionsOf,
  endLimits,
  limitEgress,
  limitIngress,
  type VethPair,
  warnOfSmallBursts,
} from "./directions.ts";
import { findHostEnd, getHostEnd } from "./host_end.ts";
import {
  identifyIfb,
  type IfbContext,
  listIfbs,
  listStaleIfbs,
} from "./ifb.ts";
import { isUnlimited, limitsOf } from "./limits.ts";

/** The plugin. Source: containernetworking/plugins plugins/meta/bandwidth/main.go. */
export const bandwidth: Plugin<BandwidthConfig> = definePlugin({
  name: "bandwidth",
  versions: listVersionsFrom("0.3.0"),
  configSchema: async () => (await import("./schema.ts")).bandwidthSchema(),

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
    const pair = { host, end, identity, hasSandbox: true };
    if (ingress !== undefined) limitIngress(pair, ingress, rollback);
    const ifb = egress && limitEgress(pair, egress, rollback);
    rollback.commit();
    return ifb === undefined
      ? prevResult
      : withInterface(prevResult, describeLink(ifb));
  },

  check: (call) =>
    withLimits(call, async (pair, { ingress, egress }) => {
      const { checkEgress, checkIngress } = await import("./check.ts");
      if (ingress !== undefined) checkIngress(pair, ingress);
      if (egress !== undefined) checkEgress(pair, egress);
    }),

  // The steps of ADD replace what is left of a limit. None is undone.
  repair: (call) =>
    withLimits(call, (pair, { ingress, egress }) => {
      const rollback = new Rollback(call.log);
      if (ingress !== undefined) limitIngress(pair, ingress, rollback);
      if (egress !== undefined) limitEgress(pair, egress, rollback);
    }),

  async del(call): Promise<void> {
    using host = Rtnl.open(call.hostNetns);
    const identity = await identifyIfb(attachmentOf(call));
    const place = { host, identity, ...findPlace(host, call) };
    const ifbs = listIfbs(place);
    const end = (): void => endLimitsOfEnd(place, ifbs[0], call);
    if (ifbs.length === 0) return end();
    // Before the IFB: traffic redirected to a deleted IFB is lost.
    await deleteLater(ifbs, call, {
      run: end,
      // The limits are the host's end's, and go with it.
      unlessDeleted: place.end === undefined
        ? []
        : [{ index: place.end.index, netns: call.hostNetns }],
    });
  },

  async gc(call): Promise<void> {
    const { hostNetns, network, validAttachments } = call;
    if (validAttachments === undefined) return;
    using host = Rtnl.open(hostNetns);
    await deleteNow(listStaleIfbs(host, network, validAttachments), call);
  },
});

/** Works on the veth pair of an attachment, unless the configuration limits nothing. */
async function withLimits(
  call: Call<BandwidthConfig>,
  work: (pair: VethPair, directions: Directions) => MaybePromise<void>,
): Promise<void> {
  const limits = limitsOf(call.config);
  const prevResult = requirePrevResult(
    call,
    "must be called as a chained plugin",
  );
  if (isUnlimited(limits)) return;
  using host = Rtnl.open(call.hostNetns);
  using sandbox = openSandbox(call.args);
  const end = getHostEnd(host, sandbox, prevResult, call.args.ifName);
  const identity = await identifyIfb(attachmentOf(call));
  const pair = { host, end, identity, hasSandbox: true };
  await work(pair, directionsOf(limits, end));
}

/** Adds an interface to a result, or replaces one with the same name. */
function withInterface(result: Result, added: Interface): Result {
  const others = result.interfaces.filter(({ name, sandbox }) =>
    sandbox || name !== added.name
  );
  return { ...result, interfaces: [...others, added] };
}

/** Finds the rest of the veth pair; the IFB can be found without it. */
function findPlace(
  host: Rtnl,
  call: Call,
): Pick<IfbContext, "end" | "hasSandbox"> {
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
 * Ends the limits on the host's end, after the call if need be.
 *
 * @throws {Error} If the kernel refuses
 */
function endLimitsOfEnd(
  place: IfbContext,
  ifb: Link | undefined,
  call: Call,
): void {
  try {
    using host = Rtnl.open(call.hostNetns);
    endLimits({ ...place, host }, ifb, (end) => isOwnEnd(end, call));
  } catch (cause) {
    throw new Error("Cannot remove the rate limits from the host end", {
      cause,
    });
  }
}

/**
 * Reports whether a veth pair is this attachment's. A DEL also follows an ADD that
 * failed because another attachment had the interface's name. From 0.4.0 on, a
 * prevResult shows that an ADD succeeded.
 */
function isOwnEnd({ alias, name }: Link, call: Call): boolean {
  if (alias === aliasOf(attachmentOf(call))) return true;
  const prevResult = readablePrevResult(call);
  if (prevResult === undefined) {
    return alias === undefined && !isAtLeast(call.cniVersion, "0.4.0");
  }
  return prevResult.interfaces.some((one) => !one.sandbox && one.name === name);
}
