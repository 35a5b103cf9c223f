/**
 * Leases of IPv4 addresses: how the daemon gets, extends, loses and restores
 * them.
 *
 * @module
 */

import { isErrno } from "../../ffi/errno.ts";
import { OPTIONS, Options } from "../../net/dhcp/options.ts";
import { kernelRoutesOf } from "../../plugins/parts/link/configure_link.ts";
import { decline, discover, extend, release, serverOf } from "./client4.ts";
import { type Lease4, type LeaseRequest, uptime } from "./lease.ts";
import type { Port, Reply } from "./port.ts";
import { type LeaseProtocol, type LeaseTimes, withExpiry } from "./protocol.ts";
import { resultOf4 } from "./result4.ts";

/** Source: lease.go: lease time in s, and the parts after which to renew and rebind. */
const LEASE_TIME = 3600, RENEWAL = 0.5, REBINDING = 0.85;

/** See {@linkcode LeaseProtocol}. */
export const protocol4: LeaseProtocol<Lease4> = {
  lossOf: ({ isDual }) =>
    isDual ? "removing its address" : "taking the link down",
  resultOf: resultOf4,
  timesOf,

  async acquire(port, request, options): Promise<Lease4> {
    return leaseOf(request, port, await discover(port, request, options));
  },

  async extend(port, lease, { asksAll, ...options }): Promise<Lease4> {
    const server = asksAll ? undefined : serverOf(lease);
    const reply = await extend(port, lease, { ...options, server });
    const kept = keepMissing(reply.options, lease);
    return leaseOf(lease, port, { ...reply, options: kept });
  },

  release(port, lease): Promise<void> {
    release(port, lease);
    return Promise.resolve();
  },

  decline,

  lose(port, lease): void {
    if (!lease.isDual) port.setUp(false);
    try {
      const [{ address } = {}] = resultOf4(lease).ips;
      if (address) port.rtnl.address.del(port.link.index, address);
    } catch (error) {
      if (!isErrno(error, "EADDRNOTAVAIL")) throw error;
    }
  },

  /**
   * Tries to get the same address again: the runtime identifies the container
   * by it.
   */
  async regain(port, before, options): Promise<Lease4> {
    port.setUp(true);
    try {
      const asking = { ...options, before: before.address };
      const reply = await discover(port, before, asking);
      const lease = leaseOf(before, port, reply);
      if (lease.address !== before.address) {
        release(port, lease);
        throw new Error(
          `the server offers ${lease.address}, not ${before.address}`,
        );
      }
      restore(port, lease);
      return lease;
    } catch (error) {
      if (!before.isDual) port.setUp(false);
      throw error;
    }
  },
};

/** Restores the addresses and routes that the container lost with the lease. */
function restore({ rtnl, link }: Port, lease: Lease4): void {
  const { ips, routes } = resultOf4(lease);
  const ifindex = link.index;
  for (const { address } of ips) rtnl.address.replace({ ifindex, address });
  for (const route of kernelRoutesOf({ ips, routes })) {
    rtnl.route.replace({ ...route, ifindex });
  }
}

function leaseOf(request: LeaseRequest, port: Port, reply: Reply): Lease4 {
  const lease: Lease4 = {
    ...request,
    family: 4,
    netnsId: port.netnsId,
    ifindex: port.link.index,
    address: `${reply.yourAddress}`,
    ack: reply.options.toJSON(),
    serverMac: `${reply.serverMac}`,
    obtainedAt: uptime(),
    expires: "",
    isLost: false,
  };
  return withExpiry(lease, timesOf(lease));
}

/**
 * Returns the options of a server that extends a lease, and the earlier options that it
 * omitted: many servers send only options that change. A new lease time has its own times
 * of renewal.
 */
export function keepMissing(
  { values }: Options,
  { ack }: Pick<Lease4, "ack">,
): Options {
  const before = new Map(Options.fromJSON(ack).values);
  const { leaseTime, renewalTime, rebindingTime } = OPTIONS;
  if (values.has(leaseTime[0])) {
    before.delete(renewalTime[0]);
    before.delete(rebindingTime[0]);
  }
  return new Options(new Map([...before, ...values]));
}

/** Returns how old a lease is, and at what age something is due, in seconds. */
function timesOf(
  { ack, obtainedAt }: Lease4,
): LeaseTimes {
  const options = Options.fromJSON(ack);
  // A server's 0 counts as missing: else each answer would be due for renewal.
  const expiry = options.get("leaseTime") || LEASE_TIME;
  const rebinding = options.get("rebindingTime") || expiry * REBINDING;
  const renewal = options.get("renewalTime") || expiry * RENEWAL;
  return {
    age: uptime() - obtainedAt,
    renewal: Math.min(renewal, rebinding, expiry),
    rebinding: Math.min(rebinding, expiry),
    expiry,
  };
}
