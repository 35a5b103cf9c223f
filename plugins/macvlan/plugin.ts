/**
 * macvlan: containers next to the host on the network of one of its links, each with
 * its own MAC address.
 *
 * ```
 *            host                               container
 *   ┌─────────────────────┐               ┌────────────────────┐
 *   │                     │    macvlan    │ eth0               │
 *   │  eth0 (master) ─────┼───────────────┼─ 0a:58:c0:a8:01:0a │
 *   │   │  192.168.1.5/24 │               │  192.168.1.10/24   │
 *   └───┼─────────────────┘               └────────────────────┘
 *       │
 *    192.168.1.0/24
 * ```
 *
 * Without `ipam`, the interface is up and has no addresses. DEL leaves no objects
 * behind.
 *
 * @module
 */

import { definePlugin, type Plugin } from "../../cni/plugin.ts";
import { emptyResult, type Result } from "../../cni/result/result.ts";
import { tryAll } from "../../base/rollback.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { MacvlanMode } from "../../ffi/rtnl/link_kinds.ts";
import { macOf } from "../parts/link/mac.ts";
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
import type { MacvlanConfig } from "./schema.ts";

/** The plugin. Source: containernetworking/plugins plugins/main/macvlan/macvlan.go. */
export const macvlan: Plugin<MacvlanConfig> = definePlugin({
  name: "macvlan",
  versions: SPEC_VERSIONS,
  configSchema: async () => (await import("./schema.ts")).macvlanSchema(),

  async add(call): Promise<Result> {
    const { master, bcqueuelen, ipam } = call.config;
    const mode = modeOf("macvlan", MODES, call.config.mode);
    const broadcastQueueLength = bcqueuelen || undefined;
    return await attachToMaster(call, {
      info: { kind: "macvlan", data: { mode, broadcastQueueLength } },
      master,
      mac: macOf(call),
      details: [["mode", nameOfMode(MODES, mode)]],
      reasons: REASONS,
      onHost: (link, lease, rollback) =>
        giveHostAccess(call, link, lease, rollback),
      lease: (rollback) =>
        ipam?.type ? leaseAddresses(call, rollback) : emptyResult(),
    });
  },

  async check(call): Promise<void> {
    const mode = modeOf("macvlan", MODES, call.config.mode);
    const { checkOnMaster } = await import("../parts/link/check_on_master.ts");
    await checkOnMaster(call, {
      kind: "macvlan",
      missing: "required prevResult missing",
      settings: (link) => [
        ["mode", nameOfMode(MODES, link), nameOfMode(MODES, mode)],
      ],
      onHost: (link, differences) => checkHostAccess(call, link, differences),
    });
  },

  async repair(call, scope): Promise<void> {
    (await import("../parts/link/repair_link.ts")).repairInSandbox(call, scope);
    const mode = modeOf("macvlan", MODES, call.config.mode);
    await repairHostAccess(call, { kind: "macvlan", mode });
  },

  async del(call): Promise<void> {
    await detach(call, "macvlan", [
      "end the host's access",
      () => endHostAccess(call, "macvlan"),
    ]);
  },

  async status(call): Promise<void> {
    modeOf("macvlan", MODES, call.config.mode);
    macOf(call);
    if (call.config.ipam?.type) await call.ipam.status();
  },

  async gc(call): Promise<void> {
    await tryAll([
      ["end the host's access", () => endStaleHostAccess(call, "macvlan")],
      ["release stale addresses", async () => {
        if (call.config.ipam?.type) await call.ipam.gc();
      }],
    ]);
  },
});

/** Source: drivers/net/macvlan.c. */
const REASONS = {
  EADDRINUSE: "another link on the master has this MAC: choose a different MAC",
  EBUSY: "the master is a port of a bridge or bond, or has ipvlans: " +
    "choose a different master",
  EINVAL: "the master is not an Ethernet link, or it has several macvlans, " +
    "and one is in mode passthru",
};

const MODES = {
  bridge: MacvlanMode.Bridge,
  private: MacvlanMode.Private,
  vepa: MacvlanMode.Vepa,
  passthru: MacvlanMode.Passthru,
};
