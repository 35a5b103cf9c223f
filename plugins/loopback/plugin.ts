/**
 * loopback: brings the sandbox's own `lo` up. Runtimes call it for every
 * container, before or in addition to its networks.
 *
 * It has no keys. CNI_IFNAME is ignored: the interface is always `lo`. ADD returns
 * prevResult if there is any, otherwise `lo` with the addresses that the kernel
 * assigns. DEL brings `lo` down, unless a different interface is up; `lo` itself
 * belongs to the namespace.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { Differences } from "../../cni/call/differences.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import { emptyResult, type Result } from "../../cni/result/result.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { type Link, LOOPBACK_INDEX } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Cidr } from "../../net/cidr.ts";
import { checkAddresses, linkDifference } from "../parts/link/check_link.ts";
import {
  bringingUp,
  listAddresses,
  makeChanges,
  withAction,
} from "../parts/link/configure_link.ts";
import {
  isOfAnotherPod,
  readablePrevResult,
} from "../parts/sandbox/prev_result.ts";
import { findSandbox, openSandbox } from "../parts/sandbox/sandbox.ts";

/** Exists in every namespace and cannot be deleted, but its container can rename it. */
const NAME = "lo";
/** The Go plugin's text for a link without a hardware address. */
const NO_MAC = "00:00:00:00:00:00";

/** The plugin. Source: containernetworking/plugins plugins/main/loopback/loopback.go. */
export const loopback: Plugin = definePlugin({
  name: "loopback",
  versions: SPEC_VERSIONS,
  configSchema: async () =>
    (await import("../../cni/config/types.ts")).netConf({}),

  add(call): Result {
    using sandbox = openSandbox(call.args);
    const link = sandbox.link.get(NAME);
    // An unreadable prevResult is ignored.
    const { prevResult } = call;
    if (link.isUp) return prevResult ?? describe(sandbox, link, call);
    makeChanges(sandbox, [bringingUp(sandbox, link)]);
    try {
      return prevResult ?? describe(sandbox, link, call);
    } catch (error) {
      bringDown(sandbox);
      throw error;
    }
  },

  async check(call): Promise<void> {
    using sandbox = openSandbox(call.args);
    const link = sandbox.link.get(NAME);
    const differences = new Differences();
    if (!link.isUp) {
      differences.add(linkDifference(sandbox, link, "is down", { isUp: true }));
    }
    const addresses = listKnownAddresses(call);
    await differences.collect(() => checkAddresses(sandbox, link, addresses));
    differences.throwAny();
  },

  del(call): void {
    using sandbox = findSandbox(call);
    if (sandbox === undefined || isInUse(sandbox, call)) return;
    bringDown(sandbox);
  },
});

function bringDown(sandbox: Rtnl): void {
  withAction(
    `bring "${NAME}" down`,
    () => sandbox.link.set(LOOPBACK_INDEX, { isUp: false }),
  );
}

/**
 * Reports whether a pod might still need the interface, because CNI_NETNS of a late
 * DEL can refer to a different pod. All `lo` look alike, so a prevResult with only
 * `lo` does not identify the pod. Other interfaces that are up then show that the
 * sandbox is in use.
 */
function isInUse(sandbox: Rtnl, call: Call): boolean {
  return isOfAnotherPod(sandbox, call) ||
    sandbox.link.list().some(({ index, isUp }) =>
      index !== LOOPBACK_INDEX && isUp
    );
}

/** Lists the addresses of the interface in prevResult, if it contains the interface. */
function listKnownAddresses(call: Call): Cidr[] {
  const { interfaces = [], ips = [] } = readablePrevResult(call) ?? {};
  return ips.filter(({ interface: at = -1 }) =>
    interfaces[at]?.name === NAME && interfaces[at].sandbox
  ).map(({ address }) => address);
}

/**
 * Lists the addresses that the kernel assigned to the interface.
 *
 * @throws {CniError} 999 if it has other addresses
 */
function describe(sandbox: Rtnl, link: Link, { args }: Call): Result {
  const addresses = listAddresses(sandbox, link)
    .map(({ address }) => address);
  const foreign = addresses.find(({ ip }) => !ip.isLoopback);
  if (foreign !== undefined) {
    throw new CniError(
      ErrorCode.Internal,
      `loopback interface found with non-loopback address "${foreign}"`,
    );
  }
  return {
    ...emptyResult(),
    interfaces: [{ name: NAME, mac: NO_MAC, sandbox: args.netns }],
    ips: addresses.map((address) => ({ interface: 0, address })),
  };
}
