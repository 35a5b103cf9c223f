/**
 * The document that a credential program prints.
 *
 * @module
 */

import * as z from "zod/mini";
import { decode, omitAbsent, type SchemaOutput } from "../cni/json.ts";
import { once, optional } from "../cni/types.ts";
import type { ClientCertificate, Credentials } from "./access.ts";
import { bearer } from "./credentials.ts";
import type { ExecEntry } from "./kubeconfig_schema.ts";

/** The supported versions of the document. */
export const VERSIONS: readonly string[] = [
  "client.authentication.k8s.io/v1",
  "client.authentication.k8s.io/v1beta1",
];

const documentSchema = once(() =>
  z.object({
    apiVersion: z.string(),
    kind: z.string(),
    status: z.object({
      expirationTimestamp: optional(z.string()),
      token: optional(z.string()),
      clientCertificateData: optional(z.string()),
      clientKeyData: optional(z.string()),
    }),
  })
);

type Status = SchemaOutput<ReturnType<typeof documentSchema>>["status"];

/** Credentials with an expiration time. */
export interface ExpiringCredentials {
  readonly credentials: Credentials;
  /** Milliseconds since 1970; Infinity if they do not expire. */
  readonly expiresAtMs: number;
}

/**
 * Reads a program's output. Errors never contain any of it.
 *
 * @throws {Error} If the output is invalid
 */
export function decodeExecCredential(
  text: string,
  { command, apiVersion }: ExecEntry,
): ExpiringCredentials {
  const fail = (why: string): Error =>
    new Error(`exec: executable ${command} ${why}`);
  const what = `what exec: executable ${command} printed`;
  const document = decode(documentSchema(), parse(text, fail), what);
  if (document.apiVersion !== apiVersion) {
    throw fail(
      `is configured to use API version ${apiVersion}, and returned version ${document.apiVersion}`,
    );
  }
  const { status } = document;
  const credentials = omitAbsent<Credentials>({
    authorization: status.token
      ? bearer(checkToken(status.token, fail))
      : undefined,
    certificate: readCertificate(status, fail),
  });
  if (Object.keys(credentials).length === 0) {
    throw fail("didn't return a token or cert/key pair");
  }
  const { expirationTimestamp = "" } = status;
  return {
    credentials,
    expiresAtMs: Date.parse(expirationTimestamp) || Infinity,
  };
}

function parse(text: string, fail: (why: string) => Error): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw fail("printed no JSON");
  }
}

function checkToken(token: string, fail: (why: string) => Error): string {
  if (/^[\x20-\x7e]+$/.test(token)) return token;
  throw fail("printed a token with characters that no token may have");
}

function readCertificate(
  { clientCertificateData: cert, clientKeyData: key }: Status,
  fail: (why: string) => Error,
): ClientCertificate | undefined {
  if (cert && key) return { cert, key };
  if (!cert && !key) return undefined;
  throw fail("returned only certificate or key, not both");
}
