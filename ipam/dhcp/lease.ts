/**
 * Leases, as the plugin and the daemon exchange and keep them.
 *
 * @module
 */

import type { Attachment } from "../../cni/config/types.ts";

/** An interface has a lease of each address family. */
export type LeaseFamily = 4 | 6;

/** A request for a lease. */
export interface LeaseRequest extends Attachment {
  /** 4 if absent. */
  readonly family?: LeaseFamily;
  /** Whether the interface also has a lease of the other family. */
  readonly isDual?: boolean;
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
export type Lease = Lease4 | Lease6;

/** What leases of both families have. */
interface AnyLease extends LeaseRequest {
  /** Device and inode of the namespace, and the link's index. */
  readonly netnsId: string;
  readonly ifindex: number;
  /** The address, or the first of several addresses. */
  readonly address: string;
  readonly obtainedAt: number;
  /** For people: when it ends, as an ISO 8601 date. */
  readonly expires: string;
  /** Whether the container no longer has it, because it ended or was refused. */
  readonly isLost?: boolean;
  /** Whether it was released while no daemon ran. */
  readonly isReleased?: boolean;
}

/** A lease of an IPv4 address. */
export interface Lease4 extends AnyLease {
  readonly family?: 4;
  /** The options of the server's last acknowledgement. */
  readonly ack: Readonly<Record<string, string>>;
  /** The link-layer address from which it came: the server's, or a relay's. */
  readonly serverMac: string;
}

/** A lease of IPv6 addresses. */
export interface Lease6 extends AnyLease {
  readonly family: 6;
  /** The server's identifier, in hexadecimal. */
  readonly serverId: string;
  readonly addresses: readonly HeldAddress[];
  /** When to renew, and when to ask any server, in seconds; 0: at the usual times. */
  readonly renewal: number;
  readonly rebinding: number;
  readonly nameservers: readonly string[];
  readonly search: readonly string[];
}

/** An address of a lease, and how many seconds it is preferred and valid. */
export interface HeldAddress {
  readonly address: string;
  readonly preferred: number;
  readonly valid: number;
}

/** Returns the age of the machine's last start in seconds: a clock that survives this process. */
export function uptime(): number {
  return Number(Deno.readTextFileSync("/proc/uptime").split(" ")[0]);
}
