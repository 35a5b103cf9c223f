/**
 * The checks of an API server before it writes.
 *
 * @module
 */

import { canonical, isObject } from "./bodies.ts";
import {
  apiVersionOf,
  type KubeObject,
  type NewObject,
  type Resource,
  type ResourceName,
} from "./objects.ts";
import {
  badRequest,
  conflict,
  invalid,
  type Problem,
  type StatusError,
} from "./status.ts";
import type { Target } from "./target.ts";

/** Source: k8s.io/apimachinery/pkg/util/validation `qualifiedNameFmt`. */
const QUALIFIED_NAME =
  /^([a-z0-9.-]{1,253}\/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;
const QUALIFIED_NAME_RULE =
  "name part must consist of alphanumeric characters, '-', '_' or '.', and " +
  "must start and end with an alphanumeric character (e.g. 'MyName',  or " +
  "'my.name',  or '123-abc', regex used for validation is " +
  "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
/** Source: k8s.io/apimachinery/pkg/api/validation `TotalAnnotationSizeLimitB`. */
const MAX_ANNOTATION_BYTES = 256 * 1024;

const SUBDOMAIN =
  /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const SUBDOMAIN_RULE =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric " +
  "characters, '-' or '.', and must start and end with an alphanumeric " +
  "character (e.g. 'example.com', regex used for validation is " +
  "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/** Checks that the kind and the place of an object match the path. */
export function checkPlace(
  { resource, namespace, name }: Target,
  { apiVersion, kind, metadata }: NewObject,
): void {
  const expected = apiVersionOf(resource);
  if (
    (apiVersion ?? expected) !== expected ||
    (kind ?? resource.kind) !== resource.kind
  ) {
    throw badRequest(otherKindText(resource, apiVersion, kind));
  }
  if (name !== "" && metadata.name !== "" && metadata.name !== name) {
    throw badRequest(
      `the name of the object (${metadata.name}) does not match ` +
        `the name on the URL (${name})`,
    );
  }
  if (
    resource.isNamespaced && (metadata.namespace || namespace) !== namespace
  ) {
    throw badRequest(
      "the namespace of the provided object does not match " +
        "the namespace sent on the request",
    );
  }
}

function otherKindText(
  { group, kind: expected }: Resource,
  apiVersion = "",
  kind = "",
): string {
  const begin = `${kind} in version "${apiVersion}" cannot be handled as a`;
  const why = group === "" && apiVersion === "v1"
    ? `converting (v1.${kind}) to (core.${expected}): unknown conversion`
    : `no kind "${kind}" is registered for version "${apiVersion}" in scheme "pkg/runtime/scheme.go:110"`;
  return `${begin} ${expected}: ${why}`;
}

/** Checks a new object. Events may have any name. */
export function checkNewObject(resource: Resource, object: NewObject): void {
  const { name, namespace = "" } = object.metadata;
  if (name === "") throw nameRequired(resource);
  if (resource.name === "events") {
    checkEvent(resource, object, namespace);
  } else if (!SUBDOMAIN.test(name) || name.length > 253) {
    const problem = {
      field: "metadata.name",
      value: name,
      why: SUBDOMAIN_RULE,
    };
    throw invalid(resource, name, problem);
  }
  checkAnnotations(resource, object);
}

/** Checks annotations. Servers report each fault of them three times. */
export function checkAnnotations(
  resource: Resource,
  { metadata: { name, annotations = {} } }: NewObject,
): void {
  const field = "metadata.annotations";
  const refuse = (problem: Omit<Problem, "field" | "times">): StatusError =>
    invalid(resource, name, { field, times: 3, ...problem });
  let bytes = 0;
  for (const [key, value] of Object.entries(annotations ?? {})) {
    if (typeof value !== "string") throw badRequest(otherTypeText(resource));
    if (!QUALIFIED_NAME.test(key)) {
      throw refuse({ value: key, why: QUALIFIED_NAME_RULE });
    }
    bytes += new TextEncoder().encode(key + value).length;
  }
  if (bytes <= MAX_ANNOTATION_BYTES) return;
  const why = `Too long: may not be more than ${MAX_ANNOTATION_BYTES} bytes`;
  throw refuse({ why, reason: "FieldValueTooLong" });
}

function otherTypeText({ kind, version }: Resource): string {
  return `${kind} in version "${version}" cannot be handled as a ${kind}: ` +
    "json: cannot unmarshal number into Go struct field " +
    "ObjectMeta.metadata.annotations of type string";
}

/** Source: kubernetes pkg/apis/core/validation/events.go */
function checkEvent(
  resource: Resource,
  event: NewObject,
  namespace: string,
): void {
  const involved: string = event["involvedObject"]?.namespace ?? "";
  const isOfCluster = involved === "" && namespace === "default";
  if (involved === namespace || isOfCluster) return;
  throw invalid(resource, event.metadata.name, {
    field: "involvedObject.namespace",
    value: involved,
    why: "does not match event.namespace",
  });
}

function nameRequired(resource: Resource): StatusError {
  return invalid(resource, "", {
    field: "metadata.name",
    why: "Required value: name or generateName is required",
    reason: "FieldValueRequired",
  });
}

/** Checks that a write is based on the current version. */
export function checkVersion(
  resource: Resource,
  stored: KubeObject,
  given: NewObject,
): void {
  const { name, resourceVersion: current } = stored.metadata;
  const version = given.metadata.resourceVersion ?? "";
  if (version === current) return;
  if (version !== "") {
    throw conflict(
      resource,
      name,
      "the object has been modified; please apply your changes to the " +
        "latest version and try again",
    );
  }
  // Objects of the core group can be written without a version.
  if (resource.group === "") return;
  // To this one a resource is a kind.
  throw invalid({ ...resource, kind: resource.name }, name, {
    field: "metadata.resourceVersion",
    value: 0,
    why: "must be specified for an update",
  });
}

/** Checks that the object has the expected identity, if the request contains a UID. */
export function checkUid(
  resource: Resource,
  stored: KubeObject,
  given: NewObject,
): void {
  const { uid = "", name } = given.metadata;
  if (uid === "" || uid === stored.metadata.uid) return;
  const problem = {
    field: "metadata.uid",
    value: uid,
    why: "field is immutable",
    times: 2,
  };
  throw invalid(resource, name || stored.metadata.name, problem);
}

/** Reports whether two objects are equal, in any order of keys. */
export function isSame(one: unknown, other: unknown): boolean {
  return canonical(one) === canonical(other);
}

/** Fields by name: `true` for any value, `*` for any other name. */
interface Fields {
  readonly [name: string]: Fields | true;
}

const SPECS: Partial<
  Record<ResourceName, { fields: Fields; needs: string[] }>
> = {
  ippools: {
    fields: {
      range: true,
      allocations: { "*": { id: true, podref: true, ifname: true } },
    },
    needs: ["range", "allocations"],
  },
  overlappingrangeipreservations: {
    fields: { podref: true, ifname: true, containerid: true },
    needs: ["podref"],
  },
};

/** Returns an object without the fields that its schema lacks. */
export function prune<T extends NewObject>(
  resource: ResourceName,
  object: T,
): T {
  const schema = SPECS[resource];
  if (schema === undefined || !isObject(object["spec"])) return object;
  return { ...object, spec: pruneFields(object["spec"], schema.fields) };
}

/** Returns the first required field of the spec that is missing. */
export function findMissing(
  resource: ResourceName,
  object: NewObject,
): string | undefined {
  const spec = isObject(object["spec"]) ? object["spec"] : {};
  return SPECS[resource]?.needs.find((name) => spec[name] === undefined);
}

function pruneFields(
  value: Record<string, unknown>,
  fields: Fields,
): Record<string, unknown> {
  const kept = Object.entries(value).flatMap(([name, part]) => {
    const field = fields[name] ?? fields["*"];
    if (field === undefined) return [];
    const isDeep = field !== true && isObject(part);
    return [[name, isDeep ? pruneFields(part, field) : part] as const];
  });
  return Object.fromEntries(kept);
}
