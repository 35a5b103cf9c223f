/**
 * Errors of requests that the server refuses.
 *
 * @module
 */

import { KubeError } from "./kube_error.ts";
import { failure, type Named } from "./no_answer.ts";
import type { HttpAnswer } from "./transport.ts";
import type { Status } from "./types.ts";

/**
 * Messages for answers without a Status, by HTTP status.
 *
 * Source: k8s.io/apimachinery/pkg/api/errors/errors.go
 * `NewGenericServerResponse`.
 */
const TEXTS: Readonly<Record<number, string>> = {
  400: "the server rejected our request for an unknown reason",
  401: "the server has asked for the client to provide credentials",
  403: "the server does not allow access to the requested resource",
  404: "the server could not find the requested resource",
  405: "the server does not allow this method on the requested resource",
  409: "the server reported a conflict",
  413: "the request is too large",
  415: "the server does not understand what was sent",
  422: "the server rejected our request due to an error in our request",
  429:
    "the server has received too many requests and has asked us to try again later",
  503: "the server is currently unable to handle the request",
  504:
    "the server was unable to return a response in the time allotted, but may still be processing the request",
};

/**
 * Maximum length of a body in messages, unless it is a Status, in characters.
 */
const SHOWN_LENGTH = 200;

/**
 * Returns the error for an answer that refuses a request.
 *
 * @param body The answer's body: a Status, if an API server sent it
 */
export function refusal(
  request: Named,
  { status, headers }: Omit<HttpAnswer, "body">,
  body: string,
): KubeError {
  const found = parseStatus(body);
  const retryAfterMs = parseRetryAfter(headers.get("retry-after")) ??
    toMs(found?.details?.retryAfterSeconds);
  if (status < 400) {
    // Following the redirect would send the credentials to an unknown server.
    const why = `the server answered ${status}, and redirects are not followed`;
    return failure(request, why, { status });
  }
  return found?.message
    ? new KubeError(found.message, {
      status,
      reason: found.reason ?? "",
      retryAfterMs,
    })
    : failure(request, describe(status, headers, body), {
      status,
      retryAfterMs,
    });
}

function parseStatus(body: string): Status | undefined {
  try {
    const value: Status | null = JSON.parse(body);
    return value?.kind === "Status" ? value : undefined;
  } catch {
    return undefined;
  }
}

function describe(
  status: number,
  headers: HttpAnswer["headers"],
  body: string,
): string {
  const text = TEXTS[status] ?? `the server answered ${status}`;
  const isText = headers.get("content-type")?.startsWith("text/plain");
  const said = isText ? body.trim().slice(0, SHOWN_LENGTH) : "";
  return said === "" ? text : `${text}: ${said}`;
}

/** Source: RFC 9110 section 10.2.3. */
function parseRetryAfter(text: string | null): number | undefined {
  if (text === null) return undefined;
  if (/^\d+$/.test(text)) return toMs(Number(text));
  const atMs = Date.parse(text);
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - Date.now());
}

function toMs(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : seconds * 1000;
}
