/**
 * bandwidth: limits a container's traffic. Chained after a plugin that connects
 * the container, such as ptp or bridge.
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
 * Ingress is towards the container. The container's outgoing traffic arrives on the
 * host's end of the veth pair, where the kernel has no queue for it. It is redirected
 * to an intermediate functional block (IFB), which has a queue.
 *
 * An interface without an end on the host, such as a macvlan, has both queues inside
 * the container, with reversed directions.
 *
 * DEL leaves nothing behind.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import { Rollback } from "../../base/rollback.ts";
import type { MaybePromise } from "../../base/waiting.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import type { Interface, Result } from "../../cni/result/result.ts";
import { isAtLeast, listVersionsFrom } from "../../cni/version.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { aliasOf, attachmentOf } from "../parts/owner/attachment.ts";
import { deleteLater, deleteNow } from "../parts/link/delete_links.ts";
import {
  isOfAnotherPod,
  readablePrevResult,
  requirePrevResult,
} from "../parts/sandbox/prev_result.ts";
import { findSandbox, openSandbox, pathOf } from "../parts/sandbox/sandbox.ts";
import { describeLink } from "../parts/link/describe_link.ts";
import type { BandwidthConfig } from "./schema.ts";
import {
  type Directions,
  directionsOf,
  endLimits,
  type LimitedLink,
  limitReceived,
  limitSent,
  warnOfSmallBursts,
} from "./directions.ts";
import { findLimitedLink, getLimitedLink } from "./limited_link.ts";
import { findListedEnd } from "../parts/link/host_end.ts";
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
    const { ifName } = call.args;
    const placed = getLimitedLink(host, sandbox, prevResult, ifName);
    const { sent, received } = directionsOf(limits, placed);
    warnOfSmallBursts(call.log, { sent, received }, placed.end);
    const identity = await identifyIfb(attachmentOf(call));

    await using rollback = new Rollback(call.log);
    const link = { ...placed, identity, hasSandbox: true };
    if (sent !== undefined) limitSent(link, sent, rollback);
    const ifb = received && limitReceived(link, received, rollback);
    rollback.commit();
    // Runtimes treat interfaces in the container as its networks.
    return ifb === undefined || link.isInside
      ? prevResult
      : withInterface(prevResult, describeLink(ifb));
  },

  check: (call) =>
    withLimits(call, async (link, directions) => {
      const { checkLimits } = await import("./check.ts");
      await checkLimits(link, directions);
    }),

  // The steps of ADD replace the rest of a limit. No step is undone.
  repair: (call, scope) =>
    withLimits(call, (link, { sent, received }) => {
      if (link.isInside && !scope.sandbox) return;
      const rollback = new Rollback(call.log);
      if (sent !== undefined) limitSent(link, sent, rollback);
      if (received !== undefined) limitReceived(link, received, rollback);
    }),

  async del(call): Promise<void> {
    using host = Rtnl.open(call.hostNetns);
    using sandbox = findReadableSandbox(call);
    const identity = await identifyIfb(attachmentOf(call));
    const result = readablePrevResult(call);
    const { ifName } = call.args;
    const placed = findLimitedLink(host, sandbox, ifName, result);
    const place = { ...placed, identity };
    const ifbs = listIfbs(place);
    if (place.isInside) {
      endLimitsOfEnd(place, ifbs[0], call);
      const { linkDeletion } = call;
      const hostNetns = pathOf(place.host.netns);
      await deleteNow(ifbs, { linkDeletion, hostNetns });
      // The container can replace its end of the veth pair with such an interface.
      const end = sandbox && findListedEnd(host, sandbox, result);
      const outside = { ...place, host, end, isInside: false };
      return await deleteNow(listIfbs(outside), call);
    }
    const end = (): void => {
      using host = Rtnl.open(call.hostNetns);
      endLimitsOfEnd({ ...place, host }, ifbs[0], call);
    };
    if (ifbs.length === 0) return end();
    // Before the IFB: traffic redirected to a deleted IFB is lost.
    await deleteLater(ifbs, call, {
      run: end,
      // The limits belong to the host's end, and are deleted with it.
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

/** Works on the link of an attachment, unless the configuration limits nothing. */
async function withLimits(
  call: Call<BandwidthConfig>,
  work: (link: LimitedLink, directions: Directions) => MaybePromise<void>,
): Promise<void> {
  const limits = limitsOf(call.config);
  const prevResult = requirePrevResult(
    call,
    "must be called as a chained plugin",
  );
  if (isUnlimited(limits)) return;
  using host = Rtnl.open(call.hostNetns);
  using sandbox = openSandbox(call.args);
  const { ifName } = call.args;
  const placed = getLimitedLink(host, sandbox, prevResult, ifName);
  const identity = await identifyIfb(attachmentOf(call));
  const link = { ...placed, identity, hasSandbox: true };
  await work(link, directionsOf(limits, link));
}

/** Adds an interface to a result, or replaces an interface with the same name. */
function withInterface(result: Result, added: Interface): Result {
  const others = result.interfaces.filter(({ name, sandbox }) =>
    sandbox || name !== added.name
  );
  return { ...result, interfaces: [...others, added] };
}

/** Opens the sandbox; the IFB of a veth pair can be found without it. */
function findReadableSandbox(call: Call): Rtnl | undefined {
  try {
    return findSandbox(call);
  } catch (error) {
    call.log.warn("Ignoring the sandbox", { problem: describeError(error) });
    return undefined;
  }
}

/**
 * Ends the limits on the link, after the call if necessary.
 *
 * @throws {Error} If the kernel refuses
 */
function endLimitsOfEnd(
  place: IfbContext,
  ifb: Link | undefined,
  call: Call,
): void {
  try {
    endLimits(place, ifb, (end) => isOwnEnd(end, place, call));
  } catch (cause) {
    const where = place.isInside ? "interface" : "host end";
    throw new Error(`Cannot remove the rate limits from the ${where}`, {
      cause,
    });
  }
}

/**
 * Reports whether a link belongs to this attachment. A DEL also follows an ADD that
 * failed because a different attachment had the interface's name. Since 0.4.0, a
 * prevResult shows that an ADD succeeded.
 */
function isOwnEnd(
  { alias, name }: Link,
  { isInside, host }: IfbContext,
  call: Call,
): boolean {
  if (alias === aliasOf(attachmentOf(call))) return true;
  // The path of a deleted container's namespace can lead to a different namespace.
  if (isInside && isOfAnotherPod(host, call)) return false;
  const prevResult = readablePrevResult(call);
  if (prevResult === undefined) {
    return alias === undefined && !isAtLeast(call.cniVersion, "0.4.0");
  }
  return prevResult.interfaces.some((one) =>
    Boolean(one.sandbox) === isInside && one.name === name
  );
}
