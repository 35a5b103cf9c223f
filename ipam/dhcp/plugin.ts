/**
 * dhcp: addresses from a DHCP server of the container's network.
 *
 * ```
 *  runtime ──▶ bridge, macvlan, ... ──▶ dhcp ──▶ /run/cni/dhcp.sock ──▶ dhcp daemon
 *                                                                           │
 *               DHCP server ◀── network ◀── eth0 in the container ◀─────────┘
 * ```
 *
 * The daemon gets a lease by the container's own link, and renews it. It keeps
 * its leases in the directory next to its socket (`/run/cni/dhcp`), so it can
 * be restarted. DEL releases the lease. Without a daemon, DEL marks the lease,
 * and the daemon releases it when it starts. GC releases the leases of all
 * attachments that are not in its list of valid attachments.
 *
 * @module
 */

import { resolve } from "@std/path/posix";
import { CniError, ErrorCode } from "../../base/error.ts";
import { CONFLICTS, listedTest } from "../../cni/config/types.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import { findNetnsId } from "../../cni/call/own_netns.ts";
import type { Result } from "../../cni/result/result.ts";
import { isSameAttachment } from "../../cni/config/types.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import {
  ask,
  type DaemonRequest,
  DEFAULT_DHCP_SOCKET,
  NoDaemonError,
} from "./ask.ts";
import {
  type Lease,
  type Lease4,
  type Lease6,
  type LeaseFamily,
  type LeaseRequest,
} from "./lease.ts";
import { attachmentOf } from "../../plugins/parts/owner/attachment.ts";
import { LeaseDirectory } from "./lease_directory.ts";
import { resultOf4 } from "./result4.ts";
import type { DhcpConfig } from "./schema.ts";

/** The plugin. Source: containernetworking/plugins plugins/ipam/dhcp/main.go. */
export const dhcp: Plugin<DhcpConfig> = definePlugin({
  name: "dhcp",
  versions: SPEC_VERSIONS,
  configSchema: async () => (await import("./schema.ts")).dhcpSchema(),

  async add(call): Promise<Result> {
    const { wantedOptions } = await import("./wanted.ts");
    const { config: { ipam = {} }, args } = call;
    const netnsId = findNetnsId(args);
    const request = {
      ...attachmentOf(call),
      netns: resolve(args.netns),
      ...netnsId === undefined ? {} : { netnsId },
      options: wantedOptions(ipam, args.args).toJSON(),
      priority: ipam.priority ?? 0,
    };
    const declined = await listDeclined(call.config);
    const families = familiesOf(call.config);
    const isDual = families.length > 1;
    if (!families.includes(6)) {
      const lease = await askForLease(
        call,
        { ...request, family: 4 },
        declined,
      );
      return resultOf4(lease);
    }
    const { addWithIpv6 } = await import("./dual.ts");
    try {
      return await addWithIpv6(
        call,
        families,
        (family) => askForLease(call, { ...request, family, isDual }, declined),
      );
    } catch (error) {
      // One of two leases might exist, or might still be requested.
      await releaseOf(call).catch(() => {});
      throw error;
    }
  },

  async check(call): Promise<void> {
    const { Differences } = await import("../../cni/call/differences.ts");
    const differences = new Differences();
    for (const family of familiesOf(call.config)) {
      const key = { ...attachmentOf(call), family };
      const lease = await askDaemon(call, { command: "CHECK", key });
      const { ips = [] } = call.prevResult ?? {};
      const held = lease?.family === 6
        ? await (await import("./dual.ts")).listAddresses(call)
        : ips.map(({ address }) => address.ip);
      const has = held.some((ip) => `${ip}` === lease?.address);
      if (lease !== undefined && !lease.isLost && has) continue;
      const details = lease === undefined
        ? "the daemon has no lease"
        : lease.isLost
        ? `the lease of ${lease.address} is no longer valid`
        : `${
          lease.family === 6 ? "the interface" : "prevResult"
        } lacks the leased address ${lease.address}`;
      await differences.collect(() => {
        throw new CniError(
          ErrorCode.Internal,
          `dhcp: "${call.args.ifName}" has no valid lease`,
          { details },
        );
      });
    }
    differences.throwAny();
  },

  async del(call): Promise<void> {
    await releaseOf(call, await listDeclined(call.config));
  },

  async gc(call): Promise<void> {
    const { network, validAttachments: valid } = call;
    // A missing list is not an empty list: the valid attachments are unknown.
    if (valid === undefined) return;
    const isValid = listedTest(valid);
    await release(
      call,
      { command: "GC", network, valid },
      (lease) => lease.network === network && !isValid(lease),
    );
  },

  async status(call): Promise<void> {
    const { wantedOptions } = await import("./wanted.ts");
    wantedOptions(call.config.ipam ?? {}, "");
    try {
      await askDaemon(call, { command: "STATUS" });
    } catch (error) {
      if (!(error instanceof CniError)) {
        throw error;
      }
      const { message, details } = error;
      throw new CniError(ErrorCode.PluginNotAvailable, message, { details });
    }
  },
});

/** Returns the address families of the container's leases. */
function familiesOf({ ipam: { family = 4 } = {} }: DhcpConfig): LeaseFamily[] {
  return family === "both" ? [4, 6] : [family];
}

/** Lists the leased addresses that other machines have. */
async function listDeclined(config: DhcpConfig): Promise<string[]> {
  if (!(CONFLICTS in config)) return [];
  const { decodeConflicts } = await import("../../cni/config/conflicts.ts");
  return decodeConflicts(config).map(({ ip }) => `${ip}`);
}

/**
 * Gets a lease.
 *
 * @param declined The addresses of earlier leases that other machines have
 * @throws {CniError} The daemon's error; 11 if the daemon supports no leases of that
 *   family
 */
async function askForLease<F extends LeaseFamily>(
  call: Call<DhcpConfig>,
  request: LeaseRequest & { readonly family: F },
  declined: readonly string[],
): Promise<F extends 4 ? Lease4 : Lease6> {
  const lease = await askDaemon(call, { command: "ADD", request, declined });
  if (lease === undefined) {
    throw new CniError(ErrorCode.Internal, "The DHCP daemon returned no lease");
  }
  if ((lease.family ?? 4) === request.family) {
    return lease as F extends 4 ? Lease4 : Lease6;
  }
  throw new CniError(
    ErrorCode.TryAgainLater,
    "The DHCP daemon is from an earlier release, and leases only IPv4 addresses",
    { details: "restart it" },
  );
}

function socketOf({ config }: Call<DhcpConfig>): string {
  return config.ipam?.daemonSocketPath || DEFAULT_DHCP_SOCKET;
}

/**
 * The daemon can wait for a server for minutes: other calls run during that
 * time.
 */
function askDaemon(
  call: Call<DhcpConfig>,
  request: DaemonRequest,
): Promise<Lease | undefined> {
  const { signal, context: { yieldDuring = (wait) => wait() } } = call;
  return yieldDuring(() => ask(socketOf(call), request, signal));
}

/**
 * Has the daemon give back the leases of the call's interface.
 *
 * @param declined The leased addresses that other machines have
 */
async function releaseOf(
  call: Call<DhcpConfig>,
  declined: readonly string[] = [],
): Promise<void> {
  const key = attachmentOf(call);
  const isOver = (lease: Lease): boolean => isSameAttachment(lease, key);
  await release(call, { command: "DEL", key, declined }, isOver);
}

/** Has the daemon release leases. Marks them for it if it does not run. */
async function release(
  call: Call<DhcpConfig>,
  request: DaemonRequest,
  isOver: (lease: Lease) => boolean,
): Promise<void> {
  try {
    await askDaemon(call, request);
  } catch (error) {
    if (!(error instanceof NoDaemonError)) throw error;
    call.log.warn("The lease is not released: no DHCP daemon is running", {
      error: `${error}`,
    });
    await new LeaseDirectory(socketOf(call)).markReleased(isOver, call.log);
  }
}
