/**
 * ipvlan: containers next to the host on the network of one of its links, with the
 * same MAC address as that link.
 *
 * ```
 *            host                            container
 *   ┌─────────────────────┐             ┌────────────────────┐
 *   │                     │   ipvlan    │ eth0               │
 *   │  eth0 (master) ─────┼─────────────┼─ MAC of the master │
 *   │   │  192.168.1.5/24 │             │  192.168.1.10/24   │
 *   └───┼─────────────────┘             └────────────────────┘
 *       │
 *    192.168.1.0/24
 * ```
 *
 * In a chain and without `ipam`, the interface gets the addresses of prevResult
 * instead of their interfaces; without `master`, the single interface of prevResult
 * is the master.
 *
 * DEL leaves no objects behind.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { tryAll } from "../../base/rollback.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import type { Result } from "../../cni/result/result.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { IpvlanMode } from "../../ffi/rtnl/link_kinds.ts";
import { attachToMaster, modeOf, nameOfMode } from "../parts/link/on_master.ts";
import {
  checkHostAccess,
  endHostAccess,
  endStaleHostAccess,
  giveHostAccess,
  repairHostAccess,
} from "../parts/link/host_access_steps.ts";
import { leaseAddresses } from "../parts/address/sandbox_addresses.ts";
import { detach } from "../parts/link/sandbox_link.ts";
import type { IpvlanConfig } from "./schema.ts";

/** The plugin. Source: containernetworking/plugins plugins/main/ipvlan/ipvlan.go. */
export const ipvlan: Plugin<IpvlanConfig> = definePlugin({
  name: "ipvlan",
  versions: SPEC_VERSIONS,
  configSchema: async () => (await import("./schema.ts")).ipvlanSchema(),

  async add(call): Promise<Result> {
    const mode = modeOf("ipvlan", MODES, call.config.mode);
    const inherited = findInherited(call);
    return await attachToMaster(call, {
      info: { kind: "ipvlan", data: { mode } },
      master: masterOf(call),
      details: [["mode", nameOfMode(MODES, mode)]],
      reasons: REASONS,
      onHost: (link, lease, rollback) =>
        giveHostAccess(call, link, lease, rollback),
      lease: (rollback) => inherited ?? leaseAddresses(call, rollback),
    });
  },

  async check(call): Promise<void> {
    const mode = modeOf("ipvlan", MODES, call.config.mode);
    const { checkOnMaster } = await import("../parts/link/check_on_master.ts");
    await checkOnMaster(call, {
      kind: "ipvlan",
      missing: "Required prevResult missing",
      settings: (link) => [
        ["mode", nameOfMode(MODES, link), nameOfMode(MODES, mode)],
      ],
      onHost: (link, differences) => checkHostAccess(call, link, differences),
    });
  },

  async repair(call, scope): Promise<void> {
    (await import("../parts/link/repair_link.ts")).repairInSandbox(call, scope);
    const mode = modeOf("ipvlan", MODES, call.config.mode);
    await repairHostAccess(call, { kind: "ipvlan", mode });
  },

  async del(call): Promise<void> {
    await detach(call, "ipvlan", [
      "end the host's access",
      () => endHostAccess(call, "ipvlan"),
    ]);
  },

  async status(call): Promise<void> {
    modeOf("ipvlan", MODES, call.config.mode);
    if (call.config.ipam?.type) await call.ipam.status();
  },

  async gc(call): Promise<void> {
    await tryAll([
      ["end the host's access", () => endStaleHostAccess(call, "ipvlan")],
      ["release stale addresses", async () => {
        if (call.config.ipam?.type) await call.ipam.gc();
      }],
    ]);
  },
});

/** Source: drivers/net/ipvlan/ipvlan_main.c. */
const REASONS = {
  EADDRINUSE: "another ipvlan on the master has this address: " +
    "choose a different address",
  EBUSY: "the master is a port of a bridge or bond, or has macvlans: " +
    "choose a different master",
  EINVAL: "the master is not an Ethernet link: choose a different master",
};

const MODES = { l2: IpvlanMode.L2, l3: IpvlanMode.L3, l3s: IpvlanMode.L3s };

/** Returns the result whose addresses the interface gets, without an IPAM plugin. */
function findInherited({ config, prevResult }: Call): Result | undefined {
  if (config.ipam?.type || !prevResult?.ips.length) return undefined;
  return prevResult;
}

/** @throws {CniError} 7 if prevResult contains no interface, or several */
function masterOf(
  { config, prevResult }: Call<IpvlanConfig>,
): string | undefined {
  if (config.master || prevResult === undefined) return config.master;
  const [only, ...others] = prevResult.interfaces;
  if (only?.name && others.length === 0) return only.name;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    "chained master failure. PrevResult lacks a single named interface",
  );
}
