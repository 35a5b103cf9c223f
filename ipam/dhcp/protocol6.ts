/**
 * Leases of IPv6 addresses: how the daemon gets, assigns, extends, loses and
 * restores them.
 *
 * The kernel has the lifetimes, so an address ends with its lease even if no
 * daemon runs. Routes come from router advertisements.
 *
 * @module
 */

import { JoinedSignal } from "../../base/deadline.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { pollUntil } from "../../base/waiting.ts";
import { isErrno } from "../../ffi/errno.ts";
import type { Address } from "../../ffi/rtnl/address.ts";
import { RouterWatch } from "../../ffi/rtnl/router_discovery.ts";
import type { Bytes } from "../../net/bytes.ts";
import { Cidr } from "../../net/cidr.ts";
import { MessageType6 } from "../../net/dhcp/message6.ts";
import {
  domainsIn,
  INFINITE_SECONDS,
  type LeasedAddress,
  nameServersIn,
} from "../../net/dhcp/options6.ts";
import { Ip } from "../../net/ip.ts";
import { type DeclineLimit, RefusedError } from "./client.ts";
import { extend6, type Grant, returnAddresses, solicit } from "./client6.ts";
import { type Identity, identityOf } from "./exchange6.ts";
import { type Lease6, type LeaseRequest, uptime } from "./lease.ts";
import type { Port } from "./port.ts";
import {
  type Asking,
  type LeaseProtocol,
  type LeaseTimes,
  withExpiry,
} from "./protocol.ts";
import { resultOf6 } from "./result6.ts";

/** The parts of the preferred time after which to renew and rebind. Source: RFC 8415, section 21.4. */
const RENEWAL = 0.5, REBINDING = 0.8;
/** Earliest renewal, in seconds, whatever a server says. */
const EARLIEST = 1;
/** Time limit of duplicate address detection, in ms. */
const DETECTION_MS = 5000;

/** See {@linkcode LeaseProtocol}. */
export const protocol6: LeaseProtocol<Lease6> = {
  lossOf: () => "removing its addresses",
  resultOf: resultOf6,
  timesOf,

  acquire: (port, request, asking) => lease(port, request, [], asking),

  async extend(port, before, { asksAll, signal, declines }): Promise<Lease6> {
    const identity = await identityOf(before);
    const asking = { lease: before, asksAll, signal };
    const grant = await extend6(port, identity, asking);
    return await accept(port, before, identity, { ...grant, declines });
  },

  async release(port, { addresses, serverId, ...request }): Promise<void> {
    remove(port, addresses.map(({ address }) => Ip.parse(address)));
    await returnAddresses(port, await identityOf(request), {
      type: MessageType6.Release,
      serverId: Uint8Array.fromHex(serverId),
      ips: addresses.map(({ address }) => Ip.parse(address)),
    });
  },

  lose(port, { addresses }): void {
    remove(port, addresses.map(({ address }) => Ip.parse(address)));
  },

  async putBack(port, held, declines): Promise<boolean> {
    const { rtnl, link: { index: ifindex, isUp } } = port;
    // The kernel checks no address on a link that is down.
    if (!isUp) return false;
    const present = rtnl.address.list({ ifindex, family: 6 });
    const missing = leftOf(held).filter(({ ip }) =>
      !present.some(({ address }) => address.ip.equals(ip))
    );
    if (missing.length === 0) return false;
    const taken = await assign(port, missing);
    if (taken.length === 0) return true;
    const serverId = Uint8Array.fromHex(held.serverId);
    const refused = { request: held, serverId, ips: taken, declines };
    await decline(port, await identityOf(held), refused);
    throw new RefusedError(`another host has ${taken.join(", ")}`);
  },

  regain: (port, before, asking) =>
    lease(
      port,
      before,
      before.addresses.map(({ address }) => Ip.parse(address)),
      asking,
    ),
};

async function lease(
  port: Port,
  request: LeaseRequest,
  hints: readonly Ip[],
  { signal, declines }: Asking,
): Promise<Lease6> {
  const identity = await identityOf(request);
  const grant = await solicit(port, identity, { hints, signal });
  return await accept(port, request, identity, { ...grant, declines });
}

/**
 * Adds addresses to the container that a server has granted, and removes ended addresses.
 *
 * @throws {RefusedError} If other hosts have all of the addresses, which are then
 *   declined
 */
async function accept(
  port: Port,
  request: LeaseRequest,
  identity: Identity,
  { serverId, association, options, declines }: Grant & {
    readonly declines: DeclineLimit;
  },
): Promise<Lease6> {
  const { addresses, renewal, rebinding } = association;
  const granted = addresses.filter(({ valid }) => valid > 0);
  remove(
    port,
    addresses.filter(({ valid }) => valid === 0).map(({ ip }) => ip),
  );
  const taken = await assign(port, granted);
  await decline(port, identity, { request, serverId, ips: taken, declines });
  const kept = granted.filter(({ ip }) =>
    !taken.some((other) => other.equals(ip))
  );
  const [first] = kept.toSorted((one, other) =>
    other.preferred - one.preferred
  );
  if (first === undefined) {
    throw new RefusedError(`another host has ${taken.join(", ")}`);
  }
  const fresh: Lease6 = {
    ...request,
    family: 6,
    netnsId: port.netnsId,
    ifindex: port.link.index,
    address: `${first.ip}`,
    addresses: kept.map(({ ip, preferred, valid }) => ({
      address: `${ip}`,
      preferred,
      valid,
    })),
    serverId: serverId.toHex(),
    renewal,
    rebinding,
    nameservers: nameServersIn(options).map(String),
    search: domainsIn(options),
    obtainedAt: uptime(),
    expires: "",
    isLost: false,
  };
  return withExpiry(fresh, timesOf(fresh));
}

/** Gives back addresses that other hosts have: declines them within the limit. */
async function decline(
  port: Port,
  identity: Identity,
  { request, serverId, ips, declines }: {
    readonly request: LeaseRequest;
    readonly serverId: Bytes;
    readonly ips: readonly Ip[];
    readonly declines: DeclineLimit;
  },
): Promise<void> {
  remove(port, ips);
  const byType = Map.groupBy(
    ips,
    () => declines.take(request) ? MessageType6.Decline : MessageType6.Release,
  );
  for (const [type, ips] of byType) {
    await returnAddresses(port, identity, { type, serverId, ips });
  }
}

/**
 * Assigns addresses, and waits until the kernel has checked them for duplicates.
 *
 * @returns The addresses that a different host has
 * @throws {CniError} 11 if the check takes too long, or an address is removed
 *   twice meanwhile
 */
async function assign(
  { rtnl, link: { index: ifindex, name } }: Port,
  addresses: readonly LeasedAddress[],
): Promise<Ip[]> {
  // The kernel deletes an address with a lifetime if a different host has it.
  using watch = RouterWatch.open(rtnl.netns, ifindex);
  const add = ({ ip, preferred, valid }: LeasedAddress): void =>
    rtnl.address.replace({
      ifindex,
      address: Cidr.host(ip),
      detectsDuplicates: true,
      lifetime: { preferred, valid },
    });
  addresses.forEach(add);
  const [taken, again] = [new Set<string>(), new Set<string>()];
  using limit = new JoinedSignal(DETECTION_MS);
  return await pollUntil(() => {
    const present = rtnl.address.list({ ifindex, family: 6 });
    const stateOf = (ip: Ip): Address | undefined =>
      present.find(({ address }) => address.ip.equals(ip));
    for (const ip of watch.take().deleted) taken.add(`${ip}`);
    for (const { ip } of addresses) {
      if (stateOf(ip)?.hasDadFailed) taken.add(`${ip}`);
    }
    const free = addresses.filter(({ ip }) => !taken.has(`${ip}`));
    const missing = free.filter(({ ip }) => stateOf(ip) === undefined);
    for (const address of missing) {
      const key = `${address.ip}`;
      if (again.has(key)) {
        throw new CniError(
          ErrorCode.TryAgainLater,
          `Cannot assign an address to "${name}": ${key} was removed`,
        );
      }
      again.add(key);
      add(address);
    }
    const isBusy = missing.length > 0 ||
      free.some(({ ip }) => stateOf(ip)?.isTentative);
    if (isBusy) return undefined;
    return addresses.map(({ ip }) => ip).filter((ip) => taken.has(`${ip}`));
  }, {
    signal: limit.signal,
    giveUp: () =>
      new CniError(
        ErrorCode.TryAgainLater,
        `Cannot determine whether another host has an address of "${name}"`,
      ),
  });
}

/** Removes addresses that the container still has. */
function remove({ rtnl, link }: Port, ips: readonly Ip[]): void {
  for (const ip of ips) {
    try {
      rtnl.address.del(link.index, Cidr.host(ip));
    } catch (error) {
      if (!isErrno(error, "EADDRNOTAVAIL")) throw error;
    }
  }
}

/** Lists the addresses of a lease that are still valid, with the time that is left. */
function leftOf({ addresses, obtainedAt }: Lease6): LeasedAddress[] {
  const age = Math.ceil(uptime() - obtainedAt);
  const left = (seconds: number): number =>
    seconds === INFINITE_SECONDS ? seconds : Math.max(0, seconds - age);
  return addresses.map(({ address, preferred, valid }) => ({
    ip: Ip.parse(address),
    preferred: left(preferred),
    valid: left(valid),
  })).filter(({ valid }) => valid > 0);
}

/** Returns how old a lease is, and at what age something is due. */
function timesOf(
  { addresses, renewal, rebinding, obtainedAt }: Lease6,
): LeaseTimes {
  const expiry = Math.max(...addresses.map(({ valid }) => valid));
  // An address without a preferred lifetime is deprecated, and not requested.
  const soonest = Math.min(
    ...addresses.map(({ preferred, valid }) => preferred || valid),
  );
  const at = (given: number, part: number): number =>
    Math.min(Math.max(given || soonest * part, EARLIEST), expiry);
  return {
    age: uptime() - obtainedAt,
    renewal: at(renewal, RENEWAL),
    rebinding: at(rebinding, REBINDING),
    expiry,
  };
}
