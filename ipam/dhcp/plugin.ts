/**
 * dhcp: an address from a DHCP server of the container's network.
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
 * attachments that are not in its list of valid ones.
 *
 * @module
 */

import { resolve } from "@std/path/posix";
import { CniError, ErrorCode } from "../../base/error.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import { findNetnsId } from "../../cni/call/own_netns.ts";
import type { Result } from "../../cni/result/result.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import {
  ask,
  type DaemonRequest,
  DEFAULT_DHCP_SOCKET,
  NoDaemonError,
} from "./ask.ts";
import { keyOf, type Lease, resultOf } from "./lease.ts";
import { LeaseDirectory } from "./lease_directory.ts";
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
      ...keyOf(call),
      netns: resolve(args.netns),
      ...netnsId === undefined ? {} : { netnsId },
      options: wantedOptions(ipam, args.args).toJSON(),
      priority: ipam.priority ?? 0,
    };
    const lease = await askDaemon(call, { command: "ADD", request });
    if (lease !== undefined) return resultOf(lease);
    throw new CniError(ErrorCode.Internal, "The DHCP daemon returned no lease");
  },

  async check(call): Promise<void> {
    const request = { command: "CHECK", key: keyOf(call) } as const;
    const lease = await askDaemon(call, request);
    const { ips = [] } = call.prevResult ?? {};
    const has = ips.some(({ address }) => `${address.ip}` === lease?.address);
    if (lease !== undefined && !lease.isLost && has) return;
    const details = lease === undefined
      ? "the daemon has no lease"
      : lease.isLost
      ? `the lease of ${lease.address} is no longer valid`
      : `prevResult lacks the leased address ${lease.address}`;
    throw new CniError(
      ErrorCode.Internal,
      `dhcp: "${call.args.ifName}" has no valid lease`,
      { details },
    );
  },

  async del(call): Promise<void> {
    const key = keyOf(call);
    await release(
      call,
      { command: "DEL", key },
      (lease) =>
        lease.network === key.network && lease.ifName === key.ifName &&
        lease.containerId === key.containerId,
    );
  },

  async gc(call): Promise<void> {
    const { network, validAttachments: valid } = call;
    // A missing list is not an empty one: the valid attachments are unknown.
    if (valid === undefined) return;
    await release(
      call,
      { command: "GC", network, valid },
      (lease) =>
        lease.network === network &&
        !valid.some(({ containerId, ifName }) =>
          containerId === lease.containerId && ifName === lease.ifName
        ),
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

function socketOf({ config }: Call<DhcpConfig>): string {
  return config.ipam?.daemonSocketPath || DEFAULT_DHCP_SOCKET;
}

/**
 * The daemon may wait for a server for minutes: other calls run during that
 * time.
 */
function askDaemon(
  call: Call<DhcpConfig>,
  request: DaemonRequest,
): Promise<Lease | undefined> {
  const { signal, context: { yieldDuring = (wait) => wait() } } = call;
  return yieldDuring(() => ask(socketOf(call), request, signal));
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
    await new LeaseDirectory(socketOf(call)).markReleased(isOver);
  }
}
