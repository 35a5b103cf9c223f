/**
 * The objects in the cluster, their names, and the keys of the allocations.
 *
 * Source: whereabouts pkg/api/whereabouts.cni.cncf.io/v1alpha1,
 * pkg/storage/kubernetes/ipam.go `IPPoolName`, `normalizeRange`, `normalizeIP`.
 *
 * @module
 */

import type { ObjectMeta } from "../../kube/types.ts";
import type { Cidr } from "../../net/cidr.ts";
import type { Ip } from "../../net/ip.ts";

/** The owner of an address, as a pool records it. */
export interface Allocation {
  /** The container ID. */
  readonly id: string;
  /** `NAMESPACE/NAME` of the pod. */
  readonly podref: string;
  /** Absent in records of old releases. */
  readonly ifname?: string;
}

/** Allocations by offset. */
export type Allocations = Readonly<Record<string, Allocation>>;

/** The allocations of one range. */
export interface IpPool {
  readonly metadata?: ObjectMeta;
  readonly spec: {
    readonly range: string;
    readonly allocations?: Allocations;
  };
}

/** Keeps an address from being allocated in another range of the same network. */
export interface Reservation {
  readonly metadata?: ObjectMeta;
  readonly spec: {
    readonly podref: string;
    readonly ifname?: string;
  };
}

/** The parts of a range that belong to nodes. */
export interface NodeSlicePool {
  readonly status?: {
    readonly allocations?: readonly {
      /** "" if the slice is free. */
      readonly nodeName?: string;
      readonly sliceRange: string;
    }[];
  };
}

/** Returns the path of an allocation in a pool. */
export function allocationPath(key: string): string {
  return `/spec/allocations/${key}`;
}

/** Names a pool. */
export interface PoolKey {
  /** The value of `network_name`; "" for none. */
  readonly networkName: string;
  /** The node that owns the range as a slice; "" for a shared range. */
  readonly nodeName: string;
  readonly cidr: Cidr;
}

/** Returns the name of the pool of a range, such as `net1-10.0.0.0-8`. */
export function poolName({ networkName, nodeName, cidr }: PoolKey): string {
  return joinName([networkName, nodeName, normalise(String(cidr))]);
}

/** Returns the name of the reservation of an address, such as `fd00--1`. */
export function reservationName(networkName: string, ip: Ip): string {
  return joinName([networkName, normalise(String(ip))]);
}

/** Reports whether a name is an address's reservation, in any network. */
export function isReservationOf(name: string, ip: string): boolean {
  const own = normalise(ip);
  return name === joinName([own]) || name.endsWith(`-${own}`);
}

function normalise(text: string): string {
  return text.replace(/:$/, ":0").replace(/[:/]/g, "-");
}

/** No name may start with a dash, so addresses that start with `::` get a 0. */
function joinName(parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join("-").replace(/^-/, "0-");
}

/** Returns the key of an allocation: the offset in the network, in decimal. */
export function offsetKey({ network }: Cidr, ip: Ip): string {
  return String(ip.value - network.value);
}

/**
 * Parses the key of an allocation.
 *
 * @returns Undefined if it is not an offset in the network
 */
export function parseOffset(cidr: Cidr, key: string): bigint | undefined {
  if (!/^\d{1,39}$/.test(key)) return undefined;
  const offset = BigInt(key);
  const hostBits = cidr.network.bitLength - cidr.prefixLength;
  return offset >> BigInt(hostBits) === 0n ? offset : undefined;
}
