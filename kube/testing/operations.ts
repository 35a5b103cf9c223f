/**
 * The operations of an API server on its objects, except watch.
 *
 * Source: k8s.io/apiserver/pkg/registry/generic/registry/store.go and
 * pkg/endpoints/handlers, as far as clients see it
 *
 * @module
 */

import { listObjects } from "./listing.ts";
import { isObject, readObject, readPatch, tryToParse } from "./bodies.ts";
import {
  checkAnnotations,
  checkNewObject,
  checkPlace,
  checkUid,
  checkVersion,
  findMissing,
  isSame,
  prune,
} from "./validation.ts";
import {
  type KubeObject,
  type NewObject,
  type Resource,
  resources,
} from "./objects.ts";
import {
  alreadyExists,
  badRequest,
  conflict,
  invalid,
  notFound,
  type StatusError,
} from "./status.ts";
import type { ObjectStore } from "./store.ts";
import type { Target, Verb } from "./target.ts";

/** A request, understood. */
export interface ApiCall extends Target {
  readonly verb: Verb;
  readonly query: URLSearchParams;
  /** Without parameters; empty if missing. */
  readonly contentType: string;
  readonly body: string;
}

/** The response. */
export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

/**
 * Runs the requested operation.
 *
 * @throws {StatusError}
 */
export function perform(store: ObjectStore, call: ApiCall): Answer {
  switch (call.verb) {
    case "get":
      return { status: 200, body: get(store, call) };
    case "list":
      return { status: 200, body: listObjects(store, call) };
    case "create":
      return { status: 201, body: create(store, call) };
    case "update":
      return { status: 200, body: update(store, call) };
    case "patch":
      return { status: 200, body: patch(store, call) };
    default:
      return { status: 200, body: remove(store, call) };
  }
}

function get(
  store: ObjectStore,
  { resource, namespace, name }: Target,
): KubeObject {
  const object = store.find(resource.name, namespace, name);
  if (object === undefined) throw notFound(resource, name);
  return object;
}

function create(store: ObjectStore, call: ApiCall): KubeObject {
  const { resource, namespace } = call;
  const given = readObject(call);
  const { generateName = "", ...metadata } = given.metadata;
  const name = metadata.name || nameAfter(generateName);
  const object = { ...given, metadata: { ...metadata, name } };
  checkPlace(call, object);
  if (resource.isNamespaced) object.metadata.namespace = namespace;
  checkNamespace(store, call);
  checkNewObject(resource, object);
  if (store.find(resource.name, namespace, name) !== undefined) {
    throw alreadyExists(resource, name);
  }
  return putCustom(store, resource, object);
}

function putCustom(
  store: ObjectStore,
  resource: Resource,
  object: NewObject,
): KubeObject {
  const missing = findMissing(resource.name, object);
  if (missing === undefined) {
    return store.put(resource.name, prune(resource.name, object));
  }
  throw invalid(resource, object.metadata.name, {
    field: `spec.${missing}`,
    why: "Required value",
    reason: "FieldValueRequired",
  });
}

function checkNamespace(
  store: ObjectStore,
  { resource: { isNamespaced }, namespace }: ApiCall,
): void {
  const isThere = !isNamespaced ||
    store.find("namespaces", "", namespace) !== undefined;
  if (!isThere) throw notFound(resources.namespaces, namespace);
}

function update(store: ObjectStore, call: ApiCall): KubeObject {
  const given = readObject(call);
  checkPlace(call, given);
  if (given.metadata.name === "") {
    throw badRequest(
      `the name of the object (${call.name} based on URL) was undeterminable: name must be provided`,
    );
  }
  const stored = get(store, call);
  const { uid } = given.metadata;
  if (uid !== undefined && uid !== "" && uid !== stored.metadata.uid) {
    throw otherUid(call, uid, stored.metadata.uid);
  }
  return write(store, call, { stored, given });
}

/** Where etcd has it. */
function keyOf(
  { resource: { name: plural, group }, namespace, name }: ApiCall,
): string {
  const path = [group, plural, namespace, name].filter((part) => part !== "");
  return `/registry/${path.join("/")}`;
}

function patch(store: ObjectStore, call: ApiCall): KubeObject {
  const apply = readPatch(call);
  const stored = get(store, call);
  const given = apply(stored) as KubeObject;
  checkPlace(call, given);
  return write(store, call, { stored, given });
}

/** Writes the input to the part of the object that the request addresses. */
function write(
  store: ObjectStore,
  call: ApiCall,
  { stored, given }: { stored: KubeObject; given: NewObject },
): KubeObject {
  const { resource } = call;
  checkVersion(resource, stored, given);
  checkUid(resource, stored, given);
  checkAnnotations(resource, given);
  const object = merge(call, stored, given);
  // A write without changes keeps the version.
  if (isSame(object, stored)) return stored;
  if (isLeaving(object)) {
    store.remove(resource.name, call.namespace, call.name);
    return object as KubeObject;
  }
  return putCustom(store, resource, object);
}

/** Reports whether the last finalizer of a deleted object is gone. */
function isLeaving(
  { metadata: { deletionTimestamp, finalizers } }: NewObject,
): boolean {
  return deletionTimestamp !== undefined && !finalizers?.length;
}

function merge(
  { resource, subresource, namespace, name }: ApiCall,
  stored: KubeObject,
  given: NewObject,
): KubeObject {
  const { uid, resourceVersion, creationTimestamp } = stored.metadata;
  const { deletionTimestamp } = stored.metadata;
  const identity = {
    name,
    uid,
    resourceVersion,
    creationTimestamp,
    // Only a DELETE sets it.
    ...deletionTimestamp === undefined ? {} : { deletionTimestamp },
  };
  const metadata = {
    ...given.metadata,
    ...identity,
    ...(resource.isNamespaced ? { namespace } : {}),
  };
  if (subresource === "status") {
    return { ...stored, metadata, status: given["status"] };
  }
  if (!resource.hasStatus) return { ...given, metadata };
  return { ...given, metadata, status: stored["status"] };
}

function remove(store: ObjectStore, call: ApiCall): unknown {
  const { resource, namespace, name } = call;
  const object = get(store, call);
  checkPreconditions(call, object);
  if (object.metadata["finalizers"]?.length) {
    const deletionTimestamp = object.metadata["deletionTimestamp"] ??
      new Date().toISOString().replace(/\.\d+/, "");
    const metadata = { ...object.metadata, deletionTimestamp };
    return store.put(resource.name, { ...object, metadata });
  }
  store.remove(resource.name, namespace, name);
  if (resource.name === "pods") return object;
  const { uid } = object.metadata;
  const details = { name, group: resource.group, kind: resource.name, uid };
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Success",
    details,
  };
}

/** @throws {StatusError} 409 */
function checkPreconditions(call: ApiCall, { metadata }: KubeObject): void {
  const options = tryToParse(call.body);
  const preconditions = isObject(options) ? options["preconditions"] : {};
  const { uid = metadata.uid, resourceVersion = metadata.resourceVersion } =
    isObject(preconditions) ? preconditions : {};
  if (uid !== metadata.uid) throw otherUid(call, String(uid), metadata.uid);
  if (resourceVersion === metadata.resourceVersion) return;
  throw conflict(
    call.resource,
    call.name,
    "the object has been modified; please apply your changes to the latest " +
      "version and try again",
  );
}

function otherUid(call: ApiCall, given: string, stored: string): StatusError {
  return conflict(
    call.resource,
    call.name,
    `StorageError: invalid object, Code: 4, Key: ${keyOf(call)}, ` +
      "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: " +
      `UID in precondition: ${given}, UID in object meta: ${stored}`,
  );
}

function nameAfter(prefix: string): string {
  const suffix = Math.random().toString(36).slice(2, 7).padEnd(5, "x");
  return prefix === "" ? "" : `${prefix}${suffix}`;
}
