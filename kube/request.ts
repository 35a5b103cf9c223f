/**
 * Requests, as they are asked for and as they are sent.
 *
 * @module
 */

import { withQuery } from "./path.ts";

/** A request in general. */
export interface KubeRequest {
  /** `GET` unless told. */
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | undefined;
  /** From the server's root, as `/api/v1/pods`. */
  readonly path: string;
  /** What is undefined or "" is left out. */
  readonly query?:
    | Readonly<Record<string, string | number | undefined>>
    | undefined;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** `application/json` unless told. */
  readonly contentType?: string | undefined;
  /** Whether somebody on the way may answer what he remembers, as far as we need it. */
  readonly mayBeRemembered?: boolean | undefined;
}

/** A request as it is sent. */
export interface ApiRequest {
  readonly method: string;
  /** With the query; the server's URL comes before it. */
  readonly path: string;
  readonly body?: string;
  /** There is one if there is a body. */
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
