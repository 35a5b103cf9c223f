/**
 * host-device: gives a container one of the host's devices, whole: a network
 * card, a virtual function of one, or any other link.
 *
 * ```
 *         host                          container
 *   ┌──────────────────┐          ┌──────────────────────┐
 *   │                  │   ADD    │                      │
 *   │  ens5 ───────────┼─────────→│  eth0  (alias ens5)  │
 *   │                  │←─────────┼─ 10.1.2.5/24         │
 *   │                  │   DEL    │                      │
 *   └──────────────────┘          └──────────────────────┘
 * ```
 *
 * A PCI device that a program drives (DPDK) has no link: it only gets addresses,
 * in the result.
 *
 * DEL returns the device to the host, down, with the name that it had, and
 * leaves nothing else behind.
 *
 * @module
 */

import { ifPossible } from "../../cni/files/io.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import { emptyResult, type Result } from "../../cni/result/result.ts";
import { Rollback, tryAll } from "../../cni/call/rollback.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import {
  asksOverLink,
  configureInterface,
  leaseAddresses,
  withRelease,
} from "../parts/sandbox_addresses.ts";
import {
  checkIfNameIsFree,
  findSandbox,
  openSandbox,
} from "../parts/sandbox.ts";
import { describeLink } from "../parts/veth.ts";
import {
  type Device,
  deviceKeysOf,
  getDevice,
  isDrivenByProgram,
} from "./find_device.ts";
import { findMoved, moveIn, moveOut, restoreName } from "./move.ts";
import type { HostDeviceConfig } from "./schema.ts";

/** The plugin. */
export const hostDevice: Plugin<HostDeviceConfig> = makeHostDevice();

/**
 * Builds the plugin.
 *
 * Source: containernetworking/plugins plugins/main/host-device/host-device.go.
 *
 * @param sysfs The directory that has the devices of the PCI and auxiliary buses
 */
export function makeHostDevice(sysfs = "/sys"): Plugin<HostDeviceConfig> {
  return definePlugin({
    name: "host-device",
    versions: SPEC_VERSIONS,
    configSchema: async () => (await import("./schema.ts")).hostDeviceSchema(),

    async add(call): Promise<Result> {
      const { args: { ifName, netns }, config } = call;
      const keys = deviceKeysOf(config, sysfs);
      const hasLink = !isDrivenByProgram(keys, sysfs);
      using host = Rtnl.open(call.hostNetns);
      using sandbox = openSandbox(call.args);
      const device = hasLink
        ? getDevice(host, keys, { sysfs, ifName })
        : undefined;
      checkIfNameIsFree(sandbox, ifName);
      await using rollback = new Rollback(call.log);

      const requestLease = async (): Promise<Result> =>
        config.ipam?.type
          ? await leaseAddresses(call, rollback)
          : emptyResult();

      const early = asksOverLink(config) ? undefined : await requestLease();
      const link = device && moveIn({ host, sandbox, call }, device, rollback);
      const lease = early ?? await requestLease();
      if (link !== undefined) configureInterface(sandbox, link, lease, {});

      rollback.commit();
      const described = link === undefined
        ? { name: ifName }
        : describeLink(link);
      return {
        interfaces: [{ ...described, sandbox: netns }],
        ips: lease.ips.map((ip) => ({ ...ip, interface: 0 })),
        routes: lease.routes,
        dns: config.dns ?? lease.dns,
      };
    },

    async check(call): Promise<void> {
      const keys = deviceKeysOf(call.config, sysfs);
      using sandbox = openSandbox(call.args);
      const { checkDevice, checkLease } = await import("./check.ts");
      if (isDrivenByProgram(keys, sysfs)) await checkLease(call);
      else await checkDevice(sandbox, call);
    },

    async del(call): Promise<void> {
      await tryAll(withRelease(call, [
        ["return the device to the host", () => returnDevice(call, sysfs)],
      ]));
    },

    async status(call): Promise<void> {
      if (call.config.ipam?.type) await call.ipam.status();
    },

    async gc(call): Promise<void> {
      if (call.config.ipam?.type) await call.ipam.gc();
    },
  });
}

/** Returns the device to the host, if the container still has it. */
function returnDevice(call: Call<HostDeviceConfig>, sysfs: string): void {
  using host = Rtnl.open(call.hostNetns);
  using sandbox = findSandbox(call);
  if (sandbox === undefined) return restoreName(host, call);
  const { config, args: { ifName } } = call;
  const findOnHost = (): Device =>
    getDevice(host, deviceKeysOf(config, sysfs), { sysfs, ifName });
  const isOnHost = (): boolean => ifPossible(findOnHost) !== undefined;
  const device = findMoved(sandbox, call, isOnHost);
  if (device !== undefined) {
    moveOut({ host, sandbox, call }, device.link, device.home);
  }
}
