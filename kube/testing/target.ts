/**
 * The target of a path of the API.
 *
 * @module
 */

import { isCustom, type Resource, resources } from "./objects.ts";
import { methodNotAllowed, noSuchResource, notFound } from "./status.ts";

/** A resource, or an object or a subresource of it. */
export interface Target {
  readonly resource: Resource;
  /** Empty for all of them, or if the resource has none. */
  readonly namespace: string;
  /** Empty for all objects. */
  readonly name: string;
  /** Empty for the object itself. */
  readonly subresource: string;
}

/** The operations. */
export type Verb =
  | "get"
  | "list"
  | "watch"
  | "create"
  | "update"
  | "patch"
  | "delete";

/**
 * Finds the target of a path.
 *
 * @returns Undefined if the server does not have the group
 * @throws {StatusError} 404 if the group has no such resource
 */
export function findTarget(path: string): Target | undefined {
  const segments = path.split("/").slice(1).map(decodeURIComponent);
  const [root, ...rest] = segments;
  if (root === "api") return targetIn("", rest);
  if (root !== "apis") return undefined;
  const [group = "", ...inGroup] = rest;
  return targetIn(group, inGroup);
}

function targetIn(
  group: string,
  [version, ...path]: readonly string[],
): Target | undefined {
  const served = Object.values(resources).filter((resource) =>
    resource.group === group && resource.version === version
  );
  if (served.length === 0 || path.length === 0) return undefined;
  // Paths of the resource `namespaces` and of namespaced objects begin alike.
  const isInNamespace = path[0] === "namespaces" && path.length > 2;
  const [, namespace = ""] = isInNamespace ? path : [];
  const [plural, name = "", subresource = "", ...more] = isInNamespace
    ? path.slice(2)
    : path;
  const resource = served.find((resource) => resource.name === plural);
  const isRight = resource !== undefined && more.length === 0 &&
    (isInNamespace ? resource.isNamespaced : isClusterWide(resource, name)) &&
    (subresource === "" || (subresource === "status" && resource.hasStatus));
  if (isRight) return { resource, namespace, name, subresource };
  if (!isCustom({ group })) throw noSuchResource();
  if (resource !== undefined) throw notFound(resource, name);
  return undefined;
}

/** Objects of namespaces can be listed without theirs, but not be had. */
function isClusterWide({ isNamespaced }: Resource, name: string): boolean {
  return !isNamespaced || name === "";
}

/**
 * Returns the verb of a method on a target.
 *
 * @throws {StatusError} 405
 */
export function verbOf(
  method: string,
  { name, namespace, resource, subresource }: Target,
  query: URLSearchParams,
): Verb {
  const isOne = name !== "";
  const isWatch = ["true", "1"].includes(query.get("watch") ?? "");
  if (method === "GET") {
    if (isWatch && subresource === "") return "watch";
    return isOne ? "get" : "list";
  }
  const isPlace = !isOne && (namespace !== "" || !resource.isNamespaced);
  if (method === "POST" && isPlace) return "create";
  if (method === "PUT" && isOne) return "update";
  if (method === "PATCH" && isOne) return "patch";
  if (method === "DELETE" && isOne && subresource === "") return "delete";
  throw methodNotAllowed();
}
