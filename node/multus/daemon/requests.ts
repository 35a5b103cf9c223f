/**
 * What the daemon answers: the requests of the plugin, and no others. Secrets
 * are not among them, whatever the daemon itself may read.
 *
 * @module
 */

import { once } from "../../../cni/types.ts";

/** How a request is dealt with. */
export type Kind = "pod" | "definition" | "event" | "other";

/** A request that the daemon answers. */
export interface PluginRequest {
  readonly kind: Kind;
  /** "" if it is about no namespace. */
  readonly namespace: string;
  /** "" if it is about no one object. */
  readonly name: string;
}

const CORE = "/api/v1/namespaces/:namespace";
const RESOURCES = "/apis/resource.k8s.io/v1";
const DEFINITIONS =
  "/apis/k8s.cni.cncf.io/v1/namespaces/:namespace/network-attachment-definitions";

/** A name after a colon is a segment of any text. */
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
 * Finds out what is asked.
 *
 * @returns Undefined if it is nothing that the daemon answers
 */
export function findRequest(
  method: string,
  { pathname, searchParams }: URL,
): PluginRequest | undefined {
  // It would never end.
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
    // It is encoded as nobody encodes it.
    return undefined;
  }
}
