/**
 * Requests of callers, and their paths.
 *
 * @module
 */

import { KubeError } from "./kube_error.ts";

/** Values of a query; "" and undefined are omitted. */
export type Query = Readonly<Record<string, string | number | undefined>>;

/** A request to the API. */
export interface KubeRequest {
  /** `GET` by default. */
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | undefined;
  /** From the server's root, such as `/api/v1/pods`. */
  readonly path: string;
  readonly query?: Query | undefined;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** `application/json` by default. */
  readonly contentType?: string | undefined;
  /** Asks for the metadata of the object alone. The server may send more. */
  readonly onlyMetadata?: boolean | undefined;
}

/**
 * Joins a root and names to a path, which starts at the server's root.
 *
 * @throws {KubeError} 400 if a name would change the path
 */
export function apiPath(root: string, ...names: readonly string[]): string {
  return `${root}/${names.map(checkName).join("/")}`;
}

/**
 * Checks a name, which may come from a pod's annotation and is not trusted.
 *
 * Source: k8s.io/apimachinery/pkg/api/validation/path/name.go.
 */
function checkName(name: string): string {
  const isOne = name !== "" && name !== "." && name !== ".." &&
    !/[/%]/.test(name);
  if (isOne) return encodeURIComponent(name);
  throw new KubeError(
    `invalid resource name ${
      JSON.stringify(name)
    }: it cannot be part of a path`,
    { status: 400, reason: "BadRequest" },
  );
}

/** Adds a query to a path. */
export function withQuery(path: string, query: Query = {}): string {
  const given = Object.entries(query)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([key, value]) => [key, String(value)]);
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}
