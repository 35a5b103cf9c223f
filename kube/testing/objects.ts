/**
 * The objects that the API server of the tests keeps, and its description of
 * their kinds.
 *
 * @module
 */

/** An object of the API; tests look into it as they please. */
export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata: KubeMetadata;
  // deno-lint-ignore no-explicit-any -- whatever the kind has
  [field: string]: any;
}

/** The fields of every object. */
export interface KubeMetadata {
  name: string;
  /** Undefined if the resource has none. */
  namespace?: string;
  uid: string;
  resourceVersion: string;
  creationTimestamp: string;
  annotations?: Record<string, string>;
  // deno-lint-ignore no-explicit-any -- any other field
  [field: string]: any;
}

/** An object that is put into the server: all but its name can be left out. */
export interface NewObject {
  apiVersion?: string;
  kind?: string;
  metadata: Partial<KubeMetadata> & { name: string };
  // deno-lint-ignore no-explicit-any -- whatever the kind has
  [field: string]: any;
}

/** A resource, by its plural: that which paths and `forbid()` name. */
export type ResourceName =
  | "pods"
  | "nodes"
  | "namespaces"
  | "events"
  | "network-attachment-definitions"
  | "ipamclaims"
  | "statefulsets"
  | "resourceclaims"
  | "resourceslices"
  | "ippools"
  | "overlappingrangeipreservations"
  | "nodeslicepools";

/** The definition of a resource. */
export interface Resource {
  readonly name: ResourceName;
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly shortNames: readonly string[];
  readonly isNamespaced: boolean;
  /** Whether it has `/status`, so that other writes leave the status alone. */
  readonly hasStatus: boolean;
  /** Fields that a field selector can name, in addition to name and namespace. */
  readonly selectable: readonly string[];
}

const core = { group: "", version: "v1" };
const whereabouts = {
  group: "whereabouts.cni.cncf.io",
  version: "v1alpha1",
  shortNames: [],
  isNamespaced: true,
  hasStatus: false,
  selectable: [],
};
const dra = { group: "resource.k8s.io", version: "v1" };

/** Every resource that is served. Source: `kubectl api-resources`. */
export const resources: Readonly<Record<ResourceName, Resource>> = {
  pods: {
    ...core,
    name: "pods",
    kind: "Pod",
    shortNames: ["po"],
    isNamespaced: true,
    hasStatus: true,
    selectable: ["spec.nodeName", "status.phase"],
  },
  nodes: {
    ...core,
    name: "nodes",
    kind: "Node",
    shortNames: ["no"],
    isNamespaced: false,
    hasStatus: true,
    selectable: [],
  },
  namespaces: {
    ...core,
    name: "namespaces",
    kind: "Namespace",
    shortNames: ["ns"],
    isNamespaced: false,
    hasStatus: true,
    selectable: [],
  },
  events: {
    ...core,
    name: "events",
    kind: "Event",
    shortNames: ["ev"],
    isNamespaced: true,
    hasStatus: false,
    selectable: ["reason", "type", "involvedObject.name", "involvedObject.uid"],
  },
  "network-attachment-definitions": {
    group: "k8s.cni.cncf.io",
    version: "v1",
    name: "network-attachment-definitions",
    kind: "NetworkAttachmentDefinition",
    shortNames: ["nad", "net-attach-def"],
    isNamespaced: true,
    hasStatus: false,
    selectable: [],
  },
  ipamclaims: {
    group: "k8s.cni.cncf.io",
    version: "v1alpha1",
    name: "ipamclaims",
    kind: "IPAMClaim",
    shortNames: [],
    isNamespaced: true,
    hasStatus: true,
    selectable: [],
  },
  statefulsets: {
    group: "apps",
    version: "v1",
    name: "statefulsets",
    kind: "StatefulSet",
    shortNames: ["sts"],
    isNamespaced: true,
    hasStatus: true,
    selectable: [],
  },
  resourceclaims: {
    ...dra,
    name: "resourceclaims",
    kind: "ResourceClaim",
    shortNames: [],
    isNamespaced: true,
    hasStatus: true,
    selectable: [],
  },
  resourceslices: {
    ...dra,
    name: "resourceslices",
    kind: "ResourceSlice",
    shortNames: [],
    isNamespaced: false,
    hasStatus: false,
    selectable: ["spec.nodeName", "spec.driver"],
  },
  ippools: { ...whereabouts, name: "ippools", kind: "IPPool" },
  overlappingrangeipreservations: {
    ...whereabouts,
    name: "overlappingrangeipreservations",
    kind: "OverlappingRangeIPReservation",
  },
  nodeslicepools: {
    ...whereabouts,
    name: "nodeslicepools",
    kind: "NodeSlicePool",
  },
};

/** The groups that CRDs have brought. */
const CUSTOM = ["k8s.cni.cncf.io", whereabouts.group];

/** Reports whether a resource, or a group, is custom: a different part of the server serves it. */
export function isCustom({ group }: Pick<Resource, "group">): boolean {
  return CUSTOM.includes(group);
}

/** Returns the name of a resource in errors: with its group, if any. */
export function qualifiedName({ name, group }: Resource): string {
  return group === "" ? name : `${name}.${group}`;
}

/** Returns the `apiVersion` of a resource's objects. */
export function apiVersionOf({ group, version }: Resource): string {
  return group === "" ? version : `${group}/${version}`;
}
