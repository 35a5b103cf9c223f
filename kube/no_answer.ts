/**
 * Errors of requests without an answer.
 *
 * @module
 */

import { describeError } from "../base/error.ts";
import { formatAbort, isTimeout } from "../base/deadline.ts";
import { KubeError } from "./kube_error.ts";
import type { HttpRequest } from "./transport.ts";

/** The parts of a request that messages show. */
export type Named = Pick<HttpRequest, "method" | "url">;

/** A reason for which a request gets no answer. */
interface Obstacle {
  /** Matches Deno's message, or Node's error code. */
  readonly pattern: RegExp;
  /** Formats Go's message. */
  readonly describe: (url: URL, text: string) => string;
  readonly isUntrusted?: true;
  /** Whether it keeps a request from being sent, whichever program reports it. */
  readonly isUnsent?: true;
  readonly isRefused?: true;
}

/**
 * Alerts for permanent TLS failures: rustls' name and Go's text. Others, such
 * as InternalError, may be temporary.
 *
 * Source: RFC 8446 section 6.2; Go crypto/tls alert.go `alertText`.
 */
const FINAL_ALERTS: Readonly<Record<string, string>> = {
  HandshakeFailure: "handshake failure",
  BadCertificate: "bad certificate",
  UnsupportedCertificate: "unsupported certificate",
  CertificateRevoked: "revoked certificate",
  CertificateExpired: "expired certificate",
  CertificateUnknown: "unknown certificate",
  UnknownCA: "unknown certificate authority",
  AccessDenied: "access denied",
  ProtocolVersion: "protocol version not supported",
  InsufficientSecurity: "insufficient security level",
  UnrecognizedName: "unrecognized name",
  CertificateRequired: "certificate required",
};

const FINAL_ALERT = new RegExp(
  `received fatal alert: (${Object.keys(FINAL_ALERTS).join("|")})\\b`,
);

const VERIFY = "tls: failed to verify certificate: x509: certificate";

/** The first match wins. */
const OBSTACLES: readonly Obstacle[] = [
  {
    pattern: /Connection refused|ECONNREFUSED/,
    describe: (url) => `${dial(url)}: connection refused`,
    isUnsent: true,
    isRefused: true,
  },
  {
    pattern: /No route to host|EHOSTUNREACH/,
    describe: (url) => `${dial(url)}: no route to host`,
    isUnsent: true,
  },
  {
    pattern: /Network is unreachable|ENETUNREACH/,
    describe: (url) => `${dial(url)}: network is unreachable`,
    isUnsent: true,
  },
  {
    pattern: /failed to lookup address|ENOTFOUND|EAI_AGAIN/,
    describe: ({ hostname }) => `dial tcp: lookup ${hostname}: no such host`,
    isUnsent: true,
  },
  {
    pattern: FINAL_ALERT,
    describe: (_url, text) => {
      const [, name = ""] = FINAL_ALERT.exec(text) ?? [];
      return `remote error: tls: ${FINAL_ALERTS[name]}`;
    },
    isUntrusted: true,
  },
  {
    pattern: /InvalidContentType/,
    describe: () => "http: server gave HTTP response to HTTPS client",
    isUntrusted: true,
    isUnsent: true,
  },
  {
    // Deno's Node has this code for several problems.
    pattern: /UNABLE_TO_VERIFY_LEAF_SIGNATURE/,
    describe: () => `${VERIFY} signed by unknown authority, or has expired`,
    isUntrusted: true,
    isUnsent: true,
  },
  {
    pattern: /UnknownIssuer|SELF_SIGNED_CERT|UNABLE_TO_GET_ISSUER/,
    describe: () => `${VERIFY} signed by unknown authority`,
    isUntrusted: true,
    isUnsent: true,
  },
  {
    pattern: /not valid for name|NotValidForName|ALTNAME_INVALID/,
    describe: (url, text) =>
      `${VERIFY} is not valid for ${findName(text) ?? url.hostname}`,
    isUntrusted: true,
    isUnsent: true,
  },
  {
    pattern: /certificate (expired|not valid yet)|CERT_(HAS_EXPIRED|NOT_YET)/,
    describe: () => `${VERIFY} has expired or is not yet valid`,
    isUntrusted: true,
    isUnsent: true,
  },
  {
    pattern: /invalid peer certificate/,
    describe: (_url, text) =>
      `tls: failed to verify certificate: ${text.split(": ").at(-1)}`,
    isUntrusted: true,
    isUnsent: true,
  },
  { pattern: /reading a body|aborted/, describe: () => "unexpected EOF" },
  {
    pattern:
      /Connection reset|ECONNRESET|closed connection|connection closed|unexpected eof|hang up/,
    describe: () => "EOF",
  },
];

function dial({ host, port, protocol }: URL): string {
  const standard = protocol === "https:" ? ":443" : ":80";
  return `dial tcp ${host}${port === "" ? standard : ""}: connect`;
}

/** Finds the expected name of a certificate in Deno's or Node's message. */
function findName(text: string): string | undefined {
  const [, deno, node] =
    /for name "([^"]+)"|(?:Host|IP): (\S+?)\.? is not in/.exec(text) ?? [];
  return deno ?? node;
}

/**
 * Returns the error for a request without an answer.
 *
 * @param error The error that was thrown
 * @param signal The request's signal
 */
export function noAnswer(
  request: Named,
  error: unknown,
  signal: AbortSignal,
): KubeError {
  if (error instanceof KubeError) return error;
  if (signal.aborted) {
    return failure(request, formatAbort(signal), {
      isTimeout: isTimeout(signal),
    });
  }
  const text = `${codeOf(error)} ${describeError(error)}`;
  const obstacle = OBSTACLES.find(({ pattern }) => pattern.test(text));
  const why = obstacle?.describe(new URL(request.url), text) ?? ownWords(text);
  return failure(request, why, {
    isUnsent: (obstacle?.isUnsent ?? false) || /\(Connect\)/.test(text),
    isRefused: obstacle?.isRefused ?? false,
    isUntrusted: obstacle?.isUntrusted ?? false,
  });
}

/** Returns the error for a request without a usable answer, in Go's wording. */
export function failure(
  { method, url }: Named,
  why: string,
  what: Partial<ConstructorParameters<typeof KubeError>[1]> = {},
): KubeError {
  const verb = `${method[0]}${method.slice(1).toLowerCase()}`;
  return new KubeError(`${verb} "${url}": ${why}`, { status: 0, ...what });
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

/** Removes the request from Deno's message. */
function ownWords(text: string): string {
  return text.replace(/^.*client error \(\w+\): |^.*fetch failed: /si, "")
    .trim();
}
