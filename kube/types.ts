/**
 * The objects of the Kubernetes API that are read and written here. What comes
 * from the server has more in it than is named; nothing of it is checked.
 *
 * @module
 */

import type { ObjectMeta } from "kubernetes-types/meta/v1";

export type { Event, Pod } from "kubernetes-types/core/v1";
export type { ObjectMeta, Status } from "kubernetes-types/meta/v1";

/** An answer to a LIST: the objects, and where a watch goes on. */
export interface ObjectList<T> {
  readonly metadata?: {
    readonly resourceVersion?: string;
    /** Absent or "" if nothing is left out. */
    readonly continue?: string;
  };
  readonly items?: readonly T[];
}

/** Something that happened to an object that is watched. */
export interface WatchEvent<T> {
  /** An `ERROR` is thrown, not answered. */
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK";
  /** Of a `BOOKMARK` it has nothing but the resourceVersion. */
  readonly object: T;
}

/**
 * A network to which pods may ask to be attached.
 *
 * Source: Kubernetes Network Custom Resource Definition De-facto Standard 1.3, 3.2.
 */
export interface NetworkAttachmentDefinition {
  readonly metadata?: ObjectMeta;
  readonly spec?: {
    /** A CNI configuration, or list of them, as JSON text. */
    readonly config?: string;
  };
}

/**
 * A pod's claim to devices, and which ones it was given.
 *
 * Source: k8s.io/api/resource/v1/types.go `ResourceClaim`.
 */
export interface ResourceClaim {
  readonly metadata?: ObjectMeta;
  readonly status?: {
    readonly allocation?: {
      readonly devices?: {
        readonly results?: readonly AllocatedDevice[];
      };
    };
  };
}

/**
 * A device that a claim was given.
 *
 * Source: k8s.io/api/resource/v1/types.go `DeviceRequestAllocationResult`.
 */
export interface AllocatedDevice {
  readonly request: string;
  readonly driver: string;
  readonly pool: string;
  readonly device: string;
}

/**
 * Devices of one driver, as a rule of one node.
 *
 * Source: k8s.io/api/resource/v1/types.go `ResourceSlice`.
 */
export interface ResourceSlice {
  readonly metadata?: ObjectMeta;
  readonly spec: {
    readonly driver: string;
    readonly nodeName?: string;
    readonly pool: { readonly name: string };
    readonly devices?: readonly SliceDevice[];
  };
}

/** A device in a slice. */
export interface SliceDevice {
  readonly name: string;
  readonly attributes?: Readonly<Record<string, DeviceAttribute>>;
}

/** A property of a device: one of the values is there. */
export interface DeviceAttribute {
  readonly string?: string;
  readonly int?: number;
  readonly bool?: boolean;
  readonly version?: string;
}
