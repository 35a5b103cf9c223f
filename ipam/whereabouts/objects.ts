/**
 * The objects in the cluster.
 *
 * Source: whereabouts pkg/api/whereabouts.cni.cncf.io/v1alpha1.
 *
 * @module
 */

import type { ObjectMeta } from "../../kube/types.ts";

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
