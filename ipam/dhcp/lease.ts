/**
 * Leases, as the plugin and the daemon exchange and keep them.
 *
 * @module
 */

import type { CmdArgs } from "../../cni/call/args.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { emptyDns, type Result, type Route } from "../../cni/result/result.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import { Options } from "../../net/dhcp/options.ts";

/** The interface that a lease is for. */
export interface LeaseKey {
  readonly network: string;
  readonly containerId: string;
  readonly ifName: string;
}

/** A request for a lease. */
export interface LeaseRequest extends LeaseKey {
  /** Path of the container's namespace. */
  readonly netns: string;
  /** Device and inode that the path led to when the call began. */
  readonly netnsId?: string;
  /** The options to send, as of {@linkcode Options.toJSON}. */
  readonly options: Readonly<Record<string, string>>;
  /** The metric of all routes; 0 for the kernel's. */
  readonly priority: number;
}

/** A lease. Times are seconds since the machine was started, suspension included. */
export interface Lease extends LeaseRequest {
  /** Device and inode of the namespace, and the link's index. */
  readonly netnsId: string;
  readonly ifindex: number;
  readonly address: string;
  /** The options of the server's last acknowledgement. */
  readonly ack: Readonly<Record<string, string>>;
  /** The link-layer address from which it came: the server's, or a relay's. */
  readonly serverMac: string;
  readonly obtainedAt: number;
  /** For people: when it ends, as an ISO 8601 date. */
  readonly expires: string;
  /** Whether the container no longer has it, because it ended or was refused. */
  readonly isLost?: boolean;
  /** Whether it was released while no daemon ran. */
  readonly isReleased?: boolean;
}

/** Returns the key of a call's lease. */
export function keyOf(
  { network, args: { containerId, ifName } }: {
    readonly network: string;
    readonly args: CmdArgs;
  },
): LeaseKey {
  return { network, containerId, ifName };
}

/**
 * Builds the result of a lease.
 *
 * @throws {CniError} 999 if the server sent no subnet mask
 */
export function resultOf({ address, ack, priority }: Lease): Result {
  const options = Options.fromJSON(ack);
  const prefixLength = options.get("subnetMask");
  if (prefixLength === undefined) {
    throw new CniError(
      ErrorCode.Internal,
      "DHCP option Subnet Mask not found in DHCPACK",
    );
  }
  const [gateway] = options.get("routers") ?? [];
  const nameservers = options.get("nameServers") ?? [];
  return {
    interfaces: [],
    ips: [{ address: new Cidr(Ip.parse(address), prefixLength), gateway }],
    routes: routesOf(options)
      .map((route) => priority === 0 ? route : { ...route, priority }),
    dns: {
      ...emptyDns(),
      nameservers: nameservers.map(String),
      domain: options.get("domainName") ?? "",
      search: options.get("domainSearch") ?? [],
    },
  };
}

const UNSPECIFIED = Ip.parse("0.0.0.0"), SCOPE_LINK = 253;

/** Classless routes replace all others. Source: RFC 3442. */
function routesOf(options: Options): Route[] {
  const classless = options.get("classlessRoutes") ?? [];
  if (classless.length > 0) {
    return classless.map(({ dst, router: gw }): Route =>
      gw.equals(UNSPECIFIED) ? { dst, gw, scope: SCOPE_LINK } : { dst, gw }
    );
  }
  const [gw] = options.get("routers") ?? [];
  const others = (options.get("staticRoutes") ?? [])
    .map(({ dst, router }): Route => ({ dst, gw: router }));
  if (gw === undefined) return others;
  return [...others, { dst: new Cidr(UNSPECIFIED, 0), gw }];
}
