/**
 * The certificates of the API server of the tests, created once per process.
 *
 * @module
 */

import {
  type Certificate,
  CertificateAuthority,
  type CertificateRequest,
} from "./certificates.ts";

/** A name in the server's certificate. */
export const SERVER_NAME = "kube.example";

/** The authority, and the certificates that all tests share. */
export interface Credentials {
  readonly authority: CertificateAuthority;
  /** The server's. */
  readonly server: Certificate;
  /** The certificate of user `multus` in group `system:multus`. */
  readonly client: Certificate;
}

let made: Promise<Credentials> | undefined;

/** Returns the credentials that servers of this process share. */
export function sharedCredentials(): Promise<Credentials> {
  made ??= makeCredentials();
  return made;
}

/**
 * Issues a server certificate.
 *
 * @param names Host names; by default all names and addresses of the server
 */
export function issueServerCertificate(
  authority: CertificateAuthority,
  names?: readonly string[],
  options: Pick<CertificateRequest, "notAfter"> = {},
): Promise<Certificate> {
  return authority.issue({
    commonName: "kube-apiserver",
    usage: "server",
    dnsNames: names ?? [SERVER_NAME, "localhost", "kubernetes.default.svc"],
    ipAddresses: names === undefined ? ["127.0.0.1", "::1"] : [],
    ...options,
  });
}

async function makeCredentials(): Promise<Credentials> {
  const authority = await CertificateAuthority.create("kubernetes");
  const server = await issueServerCertificate(authority);
  const client = await authority.issue({
    commonName: "multus",
    organizations: ["system:multus"],
    usage: "client",
  });
  return { authority, server, client };
}
