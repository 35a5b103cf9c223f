/**
 * Addresses of the links of a namespace.
 *
 * @module
 */

import { Cidr } from "../../net/cidr.ts";
import type { IpFamily } from "../../net/ip.ts";
import { Flag } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import { delAddress, getAddress, newAddress } from "./address_message.ts";
import { addressFamily, AF_UNSPEC } from "./constants.ts";

/** Source: include/uapi/linux/if_addr.h. */
const IFA_F_TEMPORARY = 0x01, IFA_F_NODAD = 0x02, IFA_F_DADFAILED = 0x08;
const IFA_F_DEPRECATED = 0x20, IFA_F_TENTATIVE = 0x40, IFA_F_PERMANENT = 0x80;
const IFA_F_MANAGETEMPADDR = 0x100, IFA_F_NOPREFIXROUTE = 0x200;
/** Seconds that mean forever. Source: include/net/addrconf.h `INFINITY_LIFE_TIME`. */
export const FOREVER = 0xffffffff;

/** For how many seconds an address is used; {@linkcode FOREVER} without a limit. */
export interface AddressLifetime {
  /** Seconds during which new connections use it. */
  readonly preferred: number;
  /** Seconds until the kernel removes it. */
  readonly valid: number;
}

/** An address as the kernel reports it. */
export interface Address {
  /** Index of the link that has it. */
  readonly ifindex: number;
  /** The address with its prefix length. */
  readonly address: Cidr;
  /**
   * Whether duplicate address detection has not finished: the address cannot be used
   * yet.
   */
  readonly isTentative: boolean;
  /** Whether a different host uses the address. */
  readonly hasDadFailed: boolean;
  /** Whether it stays until it is removed, unlike an address from a router's prefix. */
  readonly isPermanent: boolean;
  /** Whether the kernel derived it at random, and replaces it after a time. IPv6. */
  readonly isTemporary: boolean;
  /**
   * Whether new connections should not use it, because its preferred time has
   * expired.
   */
  readonly isDeprecated: boolean;
  /** Whether the kernel has added no route to the prefix. */
  readonly noPrefixRoute: boolean;
  /** Whether the kernel derives temporary addresses from it. IPv6. */
  readonly makesTemporary: boolean;
  /** The rest of its lifetime; undefined if it does not expire. */
  readonly lifetime: AddressLifetime | undefined;
}

/** An address to add. */
export interface NewAddress {
  /** Index of the link that gets it. */
  readonly ifindex: number;
  /** The address with its prefix length. */
  readonly address: Cidr;
  /** Whether the kernel adds no route to the prefix. */
  readonly noPrefixRoute?: boolean;
  /** Whether an IPv6 address is checked for duplicates before it can be used. */
  readonly detectsDuplicates?: boolean;
  /** Whether the kernel derives temporary addresses from it. IPv6. */
  readonly makesTemporary?: boolean;
  /** Its lifetime; forever if absent. */
  readonly lifetime?: AddressLifetime | undefined;
}

/** Addresses of the namespace in which the socket was opened. */
export class AddressRequests {
  readonly #socket: NetlinkSocket;

  /**
   * Uses an open socket.
   *
   * @param socket Borrowed, not closed
   */
  constructor(socket: NetlinkSocket) {
    this.#socket = socket;
  }

  /**
   * Adds an address. An IPv6 address is usable immediately unless `detectsDuplicates`
   * is set. Duplicate address detection takes more than a second, and on our own
   * links it only asks the other end.
   *
   * @throws {NetlinkError} EEXIST if the link already has it, ENODEV, EACCES if IPv6
   * is disabled
   */
  add(address: NewAddress): void {
    this.#new(address, Flag.Create | Flag.Exclusive);
  }

  /**
   * Adds an address, or updates its lifetime if the link already has it.
   *
   * @throws {NetlinkError} ENODEV, EACCES if IPv6 is disabled
   */
  replace(address: NewAddress): void {
    this.#new(address, Flag.Create | Flag.Replace);
  }

  #new(
    given: NewAddress,
    flags: number,
  ): void {
    const { ifindex, address, noPrefixRoute, detectsDuplicates } = given;
    const skipsDetection = address.family === 6 && !detectsDuplicates;
    this.#socket.request(newAddress, {
      flags,
      header: headerOf(address, ifindex),
      attributes: {
        address: address.ip,
        local: address.ip,
        broadcast: address.broadcast,
        lifetimes: given.lifetime,
        flags: (skipsDetection ? IFA_F_NODAD : 0) |
          (noPrefixRoute ? IFA_F_NOPREFIXROUTE : 0) |
          (given.makesTemporary ? IFA_F_MANAGETEMPADDR : 0),
      },
    });
  }

  /**
   * Removes an address.
   *
   * @throws {NetlinkError} EADDRNOTAVAIL if the link does not have it
   */
  del(ifindex: number, address: Cidr): void {
    this.#socket.request(delAddress, {
      header: headerOf(address, ifindex),
      attributes: { address: address.ip, local: address.ip },
    });
  }

  /**
   * Lists the addresses of a link, of a family, or all addresses.
   *
   * @param filter `nsid` is the ID of another namespace, on Linux 4.20 and
   *   later
   * @throws {NetlinkError} ENODEV if the link does not exist; EINVAL or EACCES if the
   * namespace does not exist or belongs to a different user
   */
  list(
    filter: { ifindex?: number; family?: IpFamily; nsid?: number } = {},
  ): Address[] {
    const family = filter.family === undefined
      ? AF_UNSPEC
      : addressFamily(filter.family);
    const ifindex = filter.ifindex ?? 0;
    return this.#socket.dump(
      getAddress,
      {
        header: { family, ifindex },
        ...filter.nsid !== undefined &&
          { attributes: { targetNetnsId: filter.nsid } },
      },
      newAddress,
    ).flatMap(({ header, attributes }) => {
      // On a point-to-point link, IFA_ADDRESS is the address of the other end, and
      // IFA_LOCAL the address of this end.
      const own = attributes.local ?? attributes.address;
      if (own === undefined) return [];
      const flags = attributes.flags ?? header.flags;
      return [{
        ifindex: header.ifindex,
        address: Cidr.of(own, header.prefixLength),
        isTentative: (flags & IFA_F_TENTATIVE) !== 0,
        hasDadFailed: (flags & IFA_F_DADFAILED) !== 0,
        isPermanent: (flags & IFA_F_PERMANENT) !== 0,
        // In IPv4, the same flag means a secondary address.
        isTemporary: own.family === 6 && (flags & IFA_F_TEMPORARY) !== 0,
        isDeprecated: (flags & IFA_F_DEPRECATED) !== 0,
        noPrefixRoute: (flags & IFA_F_NOPREFIXROUTE) !== 0,
        makesTemporary: own.family === 6 &&
          (flags & IFA_F_MANAGETEMPADDR) !== 0,
        lifetime: lifetimeOf(attributes.lifetimes),
      }];
    });
  }
}

function lifetimeOf(
  { preferred = FOREVER, valid = FOREVER }: Partial<AddressLifetime> = {},
): AddressLifetime | undefined {
  return preferred === FOREVER && valid === FOREVER
    ? undefined
    : { preferred, valid };
}

function headerOf(
  address: Cidr,
  ifindex: number,
): { family: number; prefixLength: number; ifindex: number } {
  return {
    family: addressFamily(address.family),
    prefixLength: address.prefixLength,
    ifindex,
  };
}
