/**
 * The objects of the Kubernetes API that this library reads and writes. The
 * server's objects have more fields, and are not validated.
 *
 * @module
 */

import type { ObjectMeta } from "kubernetes-types/meta/v1";

export type { Event, Pod } from "kubernetes-types/core/v1";
export type { ObjectMeta, Status } from "kubernetes-types/meta/v1";

/**
 * An answer to a LIST: the objects, and the version at which a watch can start.
 */
export interface ObjectList<T> {
  readonly metadata?: {
    readonly resourceVersion?: string;
    /** Absent or "" on the last page. */
    readonly continue?: string;
  };
  readonly items?: readonly T[];
}

/** A change of a watched object. */
export interface WatchEvent<T> {
  /** An `ERROR` is thrown instead. */
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK";
  /** For a `BOOKMARK` it only has the resourceVersion. */
  readonly object: T;
}

/**
 * A network that pods can request.
 *
 * Source: Kubernetes Network Custom Resource Definition De-facto Standard 1.3,
 * 3.2.
 */
export interface NetworkAttachmentDefinition {
  readonly metadata?: ObjectMeta;
  readonly spec?: {
    /** A CNI configuration or configuration list, as JSON text. */
    readonly config?: string;
  };
}

/**
 * The claims of devices in a pod's status.
 *
 * Source: k8s.io/api/core/v1/types.go `PodStatus`.
 */
export interface ClaimStatus {
  /** One for each claim of the pod's specification. */
  readonly resourceClaimStatuses?: readonly ClaimReference[];
  /** The claim for extended resources of the containers. */
  readonly extendedResourceClaimStatus?: ExtendedResources | null;
}

/** A claim of a pod's specification. */
export interface ClaimReference {
  /** The specification's name for it. */
  readonly name: string;
  /** The claim; absent if none was needed. */
  readonly resourceClaimName?: string;
}

/** A claim, and the extended resource of each request. */
export interface ExtendedResources {
  readonly resourceClaimName: string;
  readonly requestMappings?: readonly {
    readonly requestName: string;
    readonly resourceName: string;
  }[];
}

/**
 * A pod's claim to devices, and the allocated devices.
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
 * A device allocated to a claim.
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
 * Devices of one driver, usually on one node.
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

export interface SliceDevice {
  readonly name: string;
  readonly attributes?: Readonly<Record<string, DeviceAttribute>>;
}

/** An attribute of a device, with one of these values. */
export interface DeviceAttribute {
  readonly string?: string;
  readonly int?: number;
  readonly bool?: boolean;
  readonly version?: string;
}
