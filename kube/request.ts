/**
 * Requests of callers, and their encoding.
 *
 * @module
 */

import { withQuery } from "./path.ts";

/** A request to the API. */
export interface KubeRequest {
  /** `GET` by default. */
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | undefined;
  /** From the server's root, such as `/api/v1/pods`. */
  readonly path: string;
  /** Values that are undefined or "" are omitted. */
  readonly query?:
    | Readonly<Record<string, string | number | undefined>>
    | undefined;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** `application/json` by default. */
  readonly contentType?: string | undefined;
  /** Whether the node's daemon may answer with the part that it remembers. */
  readonly mayBeRemembered?: boolean | undefined;
}

/** A request, ready to be sent. */
export interface ApiRequest {
  readonly method: string;
  /** Includes the query; relative to the server's URL. */
  readonly path: string;
  readonly body?: string;
  /** Present if there is a body. */
  readonly contentType?: string;
  /** As in {@linkcode KubeRequest}. */
  readonly mayBeRemembered?: true;
}

/** Encodes a request. */
export function encodeRequest(
  { method = "GET", path, query, body, contentType, mayBeRemembered }:
    KubeRequest,
): ApiRequest {
  const head = {
    method,
    path: withQuery(path, query),
    ...mayBeRemembered ? { mayBeRemembered } : {},
  };
  if (body === undefined) return head;
  return {
    ...head,
    body: JSON.stringify(body),
    contentType: contentType ?? "application/json",
  };
}
