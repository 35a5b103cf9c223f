/**
 * host-device: moves a device of the host into a container: a network card, a virtual
 * function, or any other link.
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
 * A PCI device that a program drives (DPDK) has no link: it only gets addresses, in
 * the result.
 *
 * DEL returns the device to the host, down, with its original name and settings from
 * a record that ADD has written, and leaves no other objects behind.
 *
 * @module
 */

import { ifPossible, removeIfThere } from "../../base/files/io.ts";
import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import type { Log } from "../../base/log/log.ts";
import {
  Rollback,
  type TearDownStep,
  throwAll,
  tryAll,
} from "../../base/rollback.ts";
import { heldNetnsTest, leadsToNetns } from "../../cni/call/netns_existence.ts";
import { listedTest } from "../../cni/config/types.ts";
import { definePlugin, type Plugin } from "../../cni/plugin.ts";
import { emptyResult, type Result } from "../../cni/result/result.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import {
  asksOverLink,
  configureInterface,
  leaseAddresses,
  withRelease,
} from "../parts/address/sandbox_addresses.ts";
import { checkIfNameIsFree, openSandbox } from "../parts/sandbox/sandbox.ts";
import { describeLink } from "../parts/link/describe_link.ts";
import { deviceKeysOf, getDevice, isDrivenByProgram } from "./find_device.ts";
import {
  addRoutesAndRules,
  readHostNetwork,
  withAddresses,
  withRoutes,
} from "./host_network.ts";
import { isPhysical } from "./identity.ts";
import { moveIn, reclaim } from "./move.ts";
import { type DeviceRecord, RecordFile } from "./record.ts";
import type { HostDeviceConfig } from "./schema.ts";

/** The plugin. */
export const hostDevice: Plugin<HostDeviceConfig> = makeHostDevice();

/**
 * Builds the plugin.
 *
 * Source: containernetworking/plugins plugins/main/host-device/host-device.go.
 *
 * @param sysfs The directory that contains the devices of the PCI and auxiliary buses
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
      checkHasNetwork(config, hasLink);
      using host = Rtnl.open(call.hostNetns);
      using sandbox = openSandbox(call.args);
      const file = new RecordFile(call);
      // They are most likely not this call's device.
      for (const failure of reclaimStale(host, file, call.log)) {
        call.log.warn(describeError(failure));
      }
      const device = hasLink
        ? getDevice(host, keys, { sysfs, ifName })
        : undefined;
      checkIfNameIsFree(sandbox, ifName);
      await using rollback = new Rollback(call.log);

      const { useInterfaceNetwork: keepsNetwork = false } = config;
      const requestLease = async (): Promise<Result> =>
        config.ipam?.type
          ? await leaseAddresses(call, rollback, { mayBeEmpty: keepsNetwork })
          : emptyResult();

      const early = asksOverLink(config) ? undefined : await requestLease();
      const hostNetwork = device && keepsNetwork
        ? readHostNetwork(host, device.link)
        : undefined;
      const toRecord = { file, hostNetwork };
      const link = device &&
        moveIn({ host, sandbox, call }, device, toRecord, rollback);
      const first = early ?? await requestLease();
      await using checked = link !== undefined && config.conflictCheck
        ? await (await import("../parts/address/conflict_check.ts"))
          .findUnusedAddresses({ call, sandbox, link, lease: first })
        : undefined;
      const leased = checked?.lease ?? first;
      let lease = hostNetwork ? withAddresses(leased, hostNetwork) : leased;
      if (link !== undefined) configureInterface(sandbox, link, lease, {});
      checked?.announce();
      if (link !== undefined && hostNetwork !== undefined) {
        addRoutesAndRules(sandbox, link, hostNetwork, rollback);
        lease = withRoutes(lease, hostNetwork);
      }

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

    repair: async (call, scope) =>
      (await import("../parts/link/repair_link.ts"))
        .repairInSandbox(call, scope),

    async del(call): Promise<void> {
      const unlink: TearDownStep = [
        "return the device to the host",
        async () => {
          const { returnToHost } = await import("./return_to_host.ts");
          const { config, args: { ifName } } = call;
          returnToHost(
            call,
            (host) =>
              ifPossible(() =>
                getDevice(host, deviceKeysOf(config, sysfs), { sysfs, ifName })
              ) !== undefined,
          );
        },
      ];
      await tryAll(withRelease(call, [unlink], unlink));
    },

    async status(call): Promise<void> {
      if (call.config.ipam?.type) await call.ipam.status();
    },

    async gc(call): Promise<void> {
      const { network, validAttachments, log } = call;
      await tryAll([
        ["restore devices of deleted containers", () => {
          if (validAttachments === undefined) return;
          const isValid = listedTest(validAttachments);
          using host = Rtnl.open(call.hostNetns);
          const failures = reclaimStale(
            host,
            new RecordFile(call),
            log,
            (record) => record.network === network && !isValid(record),
          );
          throwAll(failures, `${failures.length} devices cannot be restored`);
        }],
        ["release addresses", async () => {
          if (call.config.ipam?.type) await call.ipam.gc();
        }],
      ]);
    },
  });
}

/** @throws {CniError} 7 if a key needs a link, and the device has none */
function checkHasNetwork(
  { useInterfaceNetwork, conflictCheck }: HostDeviceConfig,
  hasLink: boolean,
): void {
  const key = useInterfaceNetwork
    ? "useInterfaceNetwork"
    : conflictCheck
    ? "conflictCheck"
    : undefined;
  if (key === undefined || hasLink) return;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `${key} is not supported for dpdk-bound devices`,
  );
}

/**
 * Restores the devices that the kernel has returned to the host because their
 * containers ended without a DEL, and removes their records.
 *
 * @returns Why devices cannot be restored; all other devices are restored
 */
function reclaimStale(
  host: Rtnl,
  file: RecordFile,
  log: Log,
  isMeant: (record: DeviceRecord) => boolean = () => true,
): unknown[] {
  const failures: unknown[] = [];
  const isHeld = heldNetnsTest();
  for (const { path, record } of file.list()) {
    const { netns } = record;
    if (leadsToNetns(netns.path, netns.file) || !isMeant(record)) continue;
    try {
      const isOver = reclaim({ host, log }, record) ||
        // A virtual device is deleted with its namespace.
        !isPhysical(record) && !isHeld(netns.file);
      if (isOver) removeIfThere(path);
    } catch (cause) {
      failures.push(new Error(`Cannot restore "${record.name}"`, { cause }));
    }
  }
  return failures;
}
