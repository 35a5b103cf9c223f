/**
 * The requests that the daemon answers: only those of the plugin. They never
 * include Secrets, even if the daemon may read them.
 *
 * @module
 */

import { once } from "../../../cni/types.ts";

/** How a request is handled. */
export type Kind = "pod" | "definition" | "event" | "other";

/** A request that the daemon answers. */
export interface PluginRequest {
  readonly kind: Kind;
  /** "" if the request has no namespace. */
  readonly namespace: string;
  /** "" if the request is not about a single object. */
  readonly name: string;
}

const CORE = "/api/v1/namespaces/:namespace";
const RESOURCES = "/apis/resource.k8s.io/v1";
const DEFINITIONS =
  "/apis/k8s.cni.cncf.io/v1/namespaces/:namespace/network-attachment-definitions";

/** Path patterns; a name after a colon matches any segment. */
const ROWS = [
  ["GET", `${CORE}/pods/:name`, "pod"],
  ["PATCH", `${CORE}/pods/:name/status`, "other"],
  ["PUT", `${CORE}/pods/:name/status`, "other"],
  ["POST", `${CORE}/events`, "event"],
  ["GET", `${DEFINITIONS}/:name`, "definition"],
  ["GET", `${RESOURCES}/namespaces/:namespace/resourceclaims/:name`, "other"],
  ["GET", `${RESOURCES}/resourceslices`, "other"],
] as const;

const compileRows = once(() =>
  ROWS.map(([method, path, kind]) => ({
    method,
    pattern: new RegExp(`^${path.replace(/:(\w+)/g, "(?<$1>[^/]+)")}$`),
    kind,
  }))
);

/**
 * Identifies a request.
 *
 * @returns Undefined if the daemon does not answer it
 */
export function findRequest(
  method: string,
  { pathname, searchParams }: URL,
): PluginRequest | undefined {
  // A watch would never end.
  if (searchParams.has("watch")) return undefined;
  for (const known of compileRows()) {
    if (known.method !== method) continue;
    const match = known.pattern.exec(pathname);
    if (match !== null) return describe(known.kind, match.groups);
  }
  return undefined;
}

function describe(
  kind: Kind,
  groups: Readonly<Record<string, string>> = {},
): PluginRequest | undefined {
  try {
    const { namespace = "", name = "" } = groups;
    return {
      kind,
      namespace: decodeURIComponent(namespace),
      name: decodeURIComponent(name),
    };
  } catch {
    // The encoding is invalid.
    return undefined;
  }
}
