/**
 * Reads the user of a kubeconfig.
 *
 * @module
 */

import type { Environment } from "../base/process/environment.ts";
import { omitAbsent } from "../base/json/json.ts";
import type {
  ClientCertificate,
  Credentials,
  CredentialSource,
  Header,
} from "./access.ts";
import { basic, bearer, FileCredentials } from "./credentials.ts";
import type { ClusterEntry, UserEntry } from "./kubeconfig_schema.ts";
import {
  checkToken,
  hasPem,
  type Origin,
  readNamedFile,
  readPem,
  unusable,
} from "./referenced_value.ts";

/** The context of a user's credentials. */
export interface UserOptions {
  readonly user: UserEntry;
  /** The credentials' cluster, which is passed to a program on request. */
  readonly cluster: ClusterEntry;
  /** Environment of a program that provides the credentials. */
  readonly env: Environment;
}

/**
 * Opens a user's credentials. Reads files, but does not run a program.
 *
 * @throws {CniError} 7 if they are unusable
 */
export async function openCredentials(
  origin: Origin,
  { user, cluster, env }: UserOptions,
): Promise<CredentialSource> {
  if (user["auth-provider"] !== undefined) {
    throw unusable(
      origin,
      "auth-provider: no longer supported; use exec or tokenFile",
    );
  }
  const own = new FileCredentials(() => readCredentials(origin, user));
  const { exec } = user;
  if (exec === undefined || (await own.get()).authorization) return own;
  const { ExecCredentials } = await import("./exec_credential.ts");
  return new ExecCredentials(origin, { exec, cluster, env, own });
}

function readCredentials(origin: Origin, user: UserEntry): Credentials {
  return omitAbsent<Credentials>({
    authorization: readAuthorization(origin, user),
    certificate: readCertificate(origin, user),
  });
}

function readAuthorization(
  origin: Origin,
  { tokenFile, token, username, password }: UserEntry,
): string | undefined {
  if (tokenFile) {
    const read = readNamedFile(origin, "tokenFile", tokenFile);
    return bearer(checkToken(origin, "tokenFile", read));
  }
  if (token) return bearer(checkToken(origin, "token", token));
  return username || password
    ? basic(username ?? "", password ?? "")
    : undefined;
}

function readCertificate(
  origin: Origin,
  user: UserEntry,
): ClientCertificate | undefined {
  const cert = readPem(origin, {
    key: "client-certificate",
    file: user["client-certificate"],
    data: user["client-certificate-data"],
  }, "CERTIFICATE");
  const key = readPem(origin, {
    key: "client-key",
    file: user["client-key"],
    data: user["client-key-data"],
  }, "PRIVATE KEY") ?? findKeyIn(cert);
  if (cert !== undefined && key !== undefined) return { cert, key };
  if (cert === key) return undefined;
  const missing = key === undefined ? "client-key" : "client-certificate";
  throw unusable(origin, `${missing}: missing`);
}

/** Finds the key in the certificate's file, where kubelets keep both. */
function findKeyIn(cert: string | undefined): string | undefined {
  return cert !== undefined && hasPem(cert, "PRIVATE KEY") ? cert : undefined;
}

/**
 * Builds the headers to impersonate another user.
 *
 * Source: client-go transport/round_trippers.go `impersonatingRoundTripper`.
 *
 * @throws {CniError} 7 if no user to impersonate is named
 */
export function readImpersonation(origin: Origin, user: UserEntry): Header[] {
  const { as, "as-uid": uid, "as-groups": groups = [] } = user;
  const extra = Object.entries(user["as-user-extra"] ?? {});
  if (!as) {
    if (!uid && groups.length === 0 && extra.length === 0) return [];
    throw unusable(
      origin,
      "as: missing; it is required by the other as-… keys",
    );
  }
  const headers: Header[] = [
    ["Impersonate-User", as],
    ...uid ? [["Impersonate-Uid", uid] as const] : [],
    ...groups.map((group) => ["Impersonate-Group", group] as const),
    ...extra.flatMap(([key, values]) =>
      values.map((value) =>
        [`Impersonate-Extra-${encodeURIComponent(key)}`, value] as const
      )
    ),
  ];
  return headers.map(([name, value]) => [name, encodeHeader(value)]);
}

/** Encodes a text as a header's value: UTF-8, one character per byte. */
function encodeHeader(text: string): string {
  return String.fromCharCode(...new TextEncoder().encode(text));
}
