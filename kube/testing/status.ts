/**
 * The Status objects of an API server's errors, with the exact texts: clients show these
 * texts, and some clients evaluate them.
 *
 * Source: k8s.io/apimachinery/pkg/api/errors/errors.go
 *
 * @module
 */

import { qualifiedName, type Resource } from "./objects.ts";

/** A request that is refused. */
export class StatusError extends Error {
  /** The HTTP status. */
  readonly code: number;
  readonly reason: string;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  /** Creates an error with a message that is shown unchanged. */
  constructor(
    code: number,
    reason: string,
    message: string,
    details?: Readonly<Record<string, unknown>>,
  ) {
    super(message);
    this.name = "StatusError";
    this.code = code;
    this.reason = reason;
    this.details = details;
  }

  /** Returns the Status object. */
  toStatus(): Record<string, unknown> {
    return {
      kind: "Status",
      apiVersion: "v1",
      metadata: {},
      status: "Failure",
      message: this.message,
      ...(this.reason === "" ? {} : { reason: this.reason }),
      ...(this.details === undefined ? {} : { details: this.details }),
      code: this.code,
    };
  }
}

/** Which object it is about. */
function detailsOf(
  { name: kind, group }: Resource,
  name: string,
): Record<string, string> {
  return {
    ...(name === "" ? {} : { name }),
    ...(group === "" ? {} : { group }),
    kind,
  };
}

/** The object does not exist. */
export function notFound(resource: Resource, name: string): StatusError {
  const message = `${qualifiedName(resource)} "${name}" not found`;
  return new StatusError(404, "NotFound", message, detailsOf(resource, name));
}

/** The object exists already. */
export function alreadyExists(resource: Resource, name: string): StatusError {
  const message = `${qualifiedName(resource)} "${name}" already exists`;
  const details = detailsOf(resource, name);
  return new StatusError(409, "AlreadyExists", message, details);
}

/** The object is a different object. @param why Its identity */
export function conflict(
  resource: Resource,
  name: string,
  why: string,
): StatusError {
  const object = `${qualifiedName(resource)} "${name}"`;
  const message = `Operation cannot be fulfilled on ${object}: ${why}`;
  return new StatusError(409, "Conflict", message, detailsOf(resource, name));
}

/** The object would be invalid. */
export function invalid(
  { kind, group }: Pick<Resource, "kind" | "group">,
  name: string,
  { field, times = 1, ...problem }: Problem,
): StatusError {
  const type = group === "" ? kind : `${kind}.${group}`;
  const text = describeProblem(problem);
  const message = `${type} "${name}" is invalid: ${field}: ${text}`;
  const { reason = "FieldValueInvalid" } = problem;
  return new StatusError(422, "Invalid", message, {
    ...(name === "" ? {} : { name }),
    ...(group === "" ? {} : { group }),
    kind,
    causes: Array(times).fill({ reason, message: text, field }),
  });
}

/** A fault of an object. */
export interface Problem {
  readonly field: string;
  /** Absent if `why` is sufficient. */
  readonly value?: unknown;
  readonly why: string;
  readonly reason?: string;
  /** How often the server reports it; the message contains it once. */
  readonly times?: number;
}

function describeProblem(
  { value, why }: Pick<Problem, "value" | "why">,
): string {
  return value === undefined
    ? why
    : `Invalid value: ${JSON.stringify(value)}: ${why}`;
}

/** The user is not permitted to do that. */
export function forbidden(
  request: {
    readonly user: string;
    readonly verb: string;
    readonly resource: Resource;
    readonly subresource: string;
    readonly namespace: string;
    readonly name: string;
  },
): StatusError {
  const { user, verb, resource, subresource, namespace, name } = request;
  const object = name === "" ? "" : ` "${name}"`;
  const full = subresource === ""
    ? resource.name
    : `${resource.name}/${subresource}`;
  const where = namespace === ""
    ? "at the cluster scope"
    : `in the namespace "${namespace}"`;
  const message = `${qualifiedName(resource)}${object} is forbidden: ` +
    `User "${user}" cannot ${verb} resource "${full}" ` +
    `in API group "${resource.group}" ${where}`;
  return new StatusError(403, "Forbidden", message, detailsOf(resource, name));
}

/** The user is not permitted to request that path. */
export function forbiddenPath(
  user: string,
  method: string,
  path: string,
): StatusError {
  const verb = method.toLowerCase();
  const message = `forbidden: User "${user}" cannot ${verb} path "${path}"`;
  return new StatusError(403, "Forbidden", message, {});
}

/** The credentials are wrong. */
export function unauthorized(): StatusError {
  return new StatusError(401, "Unauthorized", "Unauthorized");
}

/** The group does not have the resource. */
export function noSuchResource(): StatusError {
  const message = "the server could not find the requested resource";
  return new StatusError(404, "NotFound", message, {});
}

/** The resource has no such verb. */
export function methodNotAllowed(): StatusError {
  const message =
    "the server does not allow this method on the requested resource";
  return new StatusError(405, "MethodNotAllowed", message, {});
}

/** A test of a JSON patch failed. Source: k8s.io/apiserver handlers/patch.go */
export function patchRefused(): StatusError {
  const message =
    "the server rejected our request due to an error in our request";
  return new StatusError(422, "Invalid", message, {});
}

/** The body is not of a type that is understood. */
export function unsupportedMediaType(types: readonly string[]): StatusError {
  const message = "the body of the request was in an unknown format - " +
    `accepted media types include: ${types.join(", ")}`;
  return new StatusError(415, "UnsupportedMediaType", message);
}

/** The patch is not of a type that is understood. */
export function unsupportedPatchType(): StatusError {
  const message = "415: Unsupported Media Type";
  return new StatusError(415, "UnsupportedMediaType", message, {});
}

/** No type that the client accepts can be had. */
export function notAcceptable(): StatusError {
  const message = "406: Not Acceptable\n\nAvailable representations: " +
    "application/json, application/yaml, application/vnd.kubernetes.protobuf";
  return new StatusError(406, "NotAcceptable", message, {});
}

/** The body is too long. @param limit In bytes */
export function tooLarge(limit: number): StatusError {
  const message = `Request entity too large: limit is ${limit}`;
  return new StatusError(413, "RequestEntityTooLarge", message);
}

/** The request makes no sense. */
export function badRequest(message: string): StatusError {
  return new StatusError(400, "BadRequest", message);
}

/** The history since that version was discarded. */
export function tooOld(version: number, oldest: number): StatusError {
  const message = `too old resource version: ${version} (${oldest})`;
  return new StatusError(410, "Expired", message);
}

/** Nothing has happened yet up to that version. */
export function versionTooLarge(version: string, current: number): StatusError {
  const why = "Too large resource version";
  const message = `Timeout: ${why}: ${version}, current: ${current}`;
  return new StatusError(504, "Timeout", message, {
    causes: [{ reason: "ResourceVersionTooLarge", message: why }],
    retryAfterSeconds: 1,
  });
}

/** Formats Go's error for a text that is not a number. Source: Go strconv `NumError`. */
export function parsingProblem(
  what: "ParseInt" | "ParseUint",
  text: string,
): string {
  return `strconv.${what}: parsing "${text}": invalid syntax`;
}
