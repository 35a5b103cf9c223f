/**
 * vlan: a container in a VLAN on the network of one of the host's links.
 *
 * ```
 *            host                          container
 *   ┌─────────────────────┐             ┌───────────────┐
 *   │                     │   VLAN 5    │               │
 *   │  eth0 (master) ─────┼─────────────┼─ eth0         │
 *   │   │                 │             │  10.5.0.10/24 │
 *   └───┼─────────────────┘             └───────────────┘
 *       │ frames with tag 5
 * ```
 *
 * The kernel permits only one link for each VLAN of a master, so only one container
 * of the host can be in a VLAN.
 *
 * Without `ipam`, the interface is up and has no addresses. DEL leaves no objects
 * behind.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { definePlugin, type Plugin } from "../../cni/plugin.ts";
import { emptyResult, type Result } from "../../cni/result/result.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { attachToMaster } from "../parts/link/on_master.ts";
import { leaseAddresses } from "../parts/address/sandbox_addresses.ts";
import { detach } from "../parts/link/sandbox_link.ts";
import type { VlanConfig } from "./schema.ts";

/** The plugin. Source: containernetworking/plugins plugins/main/vlan/vlan.go. */
export const vlan: Plugin<VlanConfig> = definePlugin({
  name: "vlan",
  versions: SPEC_VERSIONS,
  configSchema: async () => (await import("./schema.ts")).vlanSchema(),

  async add(call): Promise<Result> {
    const { master, id } = settingsOf(call.config);
    return await attachToMaster(call, {
      info: { kind: "vlan", data: { id } },
      master,
      details: [["VLAN", id]],
      reasons: {
        EEXIST:
          "another link on the host or in a container is in this VLAN of " +
          "the master: the kernel allows one link for each VLAN of a master",
        ENETDOWN: "the master is down: run " + shell`ip link set ${master} up`,
        EOPNOTSUPP: "the master has no VLANs: choose a different master",
      },
      lease: (rollback) =>
        call.config.ipam?.type ? leaseAddresses(call, rollback) : emptyResult(),
    });
  },

  async check(call): Promise<void> {
    const { id, mtu } = settingsOf(call.config);
    const { checkOnMaster } = await import("../parts/link/check_on_master.ts");
    await checkOnMaster(call, {
      kind: "vlan",
      missing: "vlan: Required prevResult missing",
      settings: (link) => [
        ["VLAN", link.data?.kind === "vlan" ? link.data.id : undefined, id],
        ["MTU", link.mtu, mtu || link.mtu],
      ],
    });
  },

  repair: async (call, scope) =>
    (await import("../parts/link/repair_link.ts")).repairInSandbox(call, scope),

  async del(call): Promise<void> {
    await detach(call, "vlan");
  },

  async status(call): Promise<void> {
    settingsOf(call.config);
    if (call.config.ipam?.type) await call.ipam.status();
  },

  async gc(call): Promise<void> {
    if (call.config.ipam?.type) await call.ipam.gc();
  },
});

/** The largest VLAN. Source: IEEE 802.1Q. */
const MAX_VLAN = 4094;

/** @throws {CniError} 7 if the master is missing or the VLAN is out of range */
function settingsOf(
  { master, vlanId: id = 0, mtu = 0 }: VlanConfig,
): { readonly master: string; readonly id: number; readonly mtu: number } {
  const refuse = (why: string): CniError =>
    new CniError(ErrorCode.InvalidNetworkConfig, why);
  if (!master) {
    throw refuse(
      '"master" field is required. It specifies the host interface name to create the VLAN for',
    );
  }
  if (id < 0 || id > MAX_VLAN) {
    throw refuse(`invalid VLAN ID ${id} (must be between 0 and ${MAX_VLAN})`);
  }
  return { master, id, mtu };
}
