/**
 * Lists, whole or in pages.
 *
 * @module
 */

import {
  apiVersionOf,
  isCustom,
  type KubeObject,
  type Resource,
} from "./objects.ts";
import {
  badRequest,
  parsingProblem,
  StatusError,
  versionTooLarge,
} from "./status.ts";
import { type ObjectStore, placeOf } from "./store.ts";
import type { Target } from "./target.ts";

/** Where a list continues, and its version. */
interface Continuation {
  readonly version: number;
  /** The place of the last object that the page before it had. */
  readonly after: string;
}

/**
 * Lists the objects that a request is about. All pages of a list show the
 * objects of one version. A list of any version (`resourceVersion=0`) comes from
 * the watch cache, which does not paginate.
 *
 * Source: k8s.io/apiserver pkg/storage/cacher/delegator.go `ShouldDelegateList`.
 *
 * @throws {StatusError} 400 for a wrong selector, 410 for a page of a list that
 * is too old
 */
export function listObjects(
  store: ObjectStore,
  call: Target & { readonly query: URLSearchParams },
): unknown {
  const { resource, query } = call;
  checkVersionOf(store, query);
  const { after, version } = readContinuation(store, query);
  const isCached = query.get("resourceVersion") === "0";
  const limit = isCached ? Infinity : readLimit(query);
  const rest = store.listAt(resource.name, version).filter(selectorOf(call))
    .filter((object) => placeOf(object) > after);
  const items = rest.slice(0, limit);
  const last = items.at(-1);
  const next = last && { version, after: placeOf(last) };
  return {
    kind: `${resource.kind}List`,
    apiVersion: apiVersionOf(resource),
    metadata: {
      resourceVersion: String(version),
      ...(items.length === rest.length ? {} : {
        continue: btoa(JSON.stringify(next)),
        remainingItemCount: rest.length - items.length,
      }),
    },
    items: items.map((item) => asItem(resource, item)),
  };
}

/** Returns the filter of a list or a watch. @throws {StatusError} 400 */
export function selectorOf(
  { resource, namespace, name, query }: Target & {
    readonly query: URLSearchParams;
  },
): (object: KubeObject) => boolean {
  const selects = parseFieldSelector(
    query.get("fieldSelector") ?? "",
    resource,
  );
  return (object) =>
    (namespace === "" || object.metadata.namespace === namespace) &&
    (name === "" || object.metadata.name === name) && selects(object);
}

/** Items contain `kind` and `apiVersion` only if they are custom resources. */
function asItem(resource: Resource, object: KubeObject): unknown {
  if (isCustom(resource)) return object;
  const { kind: _kind, apiVersion: _version, ...item } = object;
  return item;
}

/** @throws {StatusError} 400; 504 if the version does not exist yet */
function checkVersionOf(store: ObjectStore, query: URLSearchParams): void {
  const text = query.get("resourceVersion") ?? "";
  if (!/^\d*$/.test(text)) {
    throw badRequest(
      `invalid resource version: resourceVersion: Invalid value: "${text}": ` +
        parsingProblem("ParseUint", text),
    );
  }
  if (Number(text) > store.version) throw versionTooLarge(text, store.version);
}

/** @throws {StatusError} 400 */
function readLimit(query: URLSearchParams): number {
  const text = query.get("limit") ?? "0";
  if (!/^\d+$/.test(text)) throw badRequest(parsingProblem("ParseInt", text));
  return Number(text) || Infinity;
}

function readContinuation(
  store: ObjectStore,
  query: URLSearchParams,
): Continuation {
  const token = query.get("continue") ?? "";
  if (token === "") return { version: store.version, after: "" };
  if (query.get("resourceVersion")) {
    throw badRequest(
      "specifying resource version is not allowed when using continue",
    );
  }
  const continuation = decodeToken(token);
  if (continuation.version < store.compactedVersion) {
    throw new StatusError(
      410,
      "Expired",
      "The provided continue parameter is too old to display a consistent " +
        "list result. You can start a new list without the continue parameter.",
    );
  }
  return continuation;
}

function decodeToken(token: string): Continuation {
  try {
    return JSON.parse(atob(token));
  } catch {
    throw badRequest(
      "invalid continue token: continue key is not valid: it is not one of mine",
    );
  }
}

/** Reports whether an object is selected. */
export type Selector = (object: KubeObject) => boolean;

const TERM = /^([^=!]+)(==|=|!=)(.*)$/;

/**
 * Parses a field selector, as `spec.nodeName=node1,status.phase!=Failed`.
 *
 * @throws {StatusError} 400
 */
export function parseFieldSelector(text: string, resource: Resource): Selector {
  const terms = text.split(",").filter((term) => term !== "");
  const selectors = terms.map((term) => parseTerm(term, resource));
  return (object) => selectors.every((selects) => selects(object));
}

function parseTerm(
  text: string,
  { selectable, ...resource }: Omit<Resource, "name">,
): Selector {
  const [, field = "", operator, value] = TERM.exec(text) ?? [];
  if (operator === undefined) {
    throw badRequest(`invalid selector: '${text}'; can't understand '${text}'`);
  }
  if (!["metadata.name", "metadata.namespace", ...selectable].includes(field)) {
    throw badRequest(unsupportedText(field, resource));
  }
  const isWanted = operator !== "!=";
  return (object) => (fieldOf(object, field) === value) === isWanted;
}

/** The groups word it differently. */
function unsupportedText(
  field: string,
  { group, version, kind }: Pick<Resource, "group" | "version" | "kind">,
): string {
  return group === "resource.k8s.io"
    ? `field label not supported for ${group}/${version}, Kind=${kind}: ${field}`
    : `field label not supported: ${field}`;
}

/** An absent field equals an empty field. */
function fieldOf(object: KubeObject, path: string): string {
  let value: unknown = object;
  for (const step of path.split(".")) {
    value = (value as Record<string, unknown> | undefined)?.[step];
  }
  return value === undefined ? "" : String(value);
}
