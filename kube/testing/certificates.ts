/**
 * X.509 certificates for tests: an authority, and certificates that it signs. All keys are
 * P-256, so that a certificate takes a millisecond.
 *
 * @module
 */

import type * as X509 from "@peculiar/x509";

const ALGORITHM = {
  name: "ECDSA",
  namedCurve: "P-256",
  hash: "SHA-256",
} as const;
const DAY_MS = 86_400_000;

/** A certificate and its private key, as PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** The content of a certificate. */
export interface CertificateRequest {
  readonly commonName: string;
  readonly organizations?: readonly string[];
  /** The side of the connection that uses it. */
  readonly usage: "server" | "client";
  readonly dnsNames?: readonly string[];
  readonly ipAddresses?: readonly string[];
  /** Expiry, in ms since 1970; in a year if undefined. */
  readonly notAfter?: number;
}

/** A certificate authority. */
export class CertificateAuthority {
  readonly #x509: typeof X509;
  readonly #key: CryptoKey;
  readonly #cert: X509.X509Certificate;

  private constructor(
    x509: typeof X509,
    key: CryptoKey,
    cert: X509.X509Certificate,
  ) {
    this.#x509 = x509;
    this.#key = key;
    this.#cert = cert;
  }

  /** Creates an authority with a self-signed certificate. */
  static async create(commonName: string): Promise<CertificateAuthority> {
    // Takes a while to load, so only where there is a server.
    const x509 = await import("@peculiar/x509");
    const keys = await generateKeys();
    const cert = await x509.X509CertificateGenerator.createSelfSigned({
      name: [{ CN: [commonName] }],
      keys,
      signingAlgorithm: ALGORITHM,
      ...validity(),
      extensions: [
        new x509.BasicConstraintsExtension(true, undefined, true),
        new x509.KeyUsagesExtension(
          x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign,
          true,
        ),
        await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      ],
    });
    return new CertificateAuthority(x509, keys.privateKey, cert);
  }

  /** PEM of its own certificate. */
  get pem(): string {
    return `${this.#cert.toString("pem")}\n`;
  }

  /** Issues a certificate with a new key. */
  async issue(request: CertificateRequest): Promise<Certificate> {
    const x509 = this.#x509;
    const { organizations = [], dnsNames = [], ipAddresses = [] } = request;
    const { serverAuth, clientAuth } = x509.ExtendedKeyUsage;
    const { publicKey, privateKey } = await generateKeys();
    const names = [
      ...dnsNames.map((value) => ({ type: "dns", value }) as const),
      ...ipAddresses.map((value) => ({ type: "ip", value }) as const),
    ];
    const cert = await x509.X509CertificateGenerator.create({
      // Groups come before the name, as `kubeadm` has them.
      subject: [
        ...organizations.map((one) => ({ O: [one] })),
        { CN: [request.commonName] },
      ],
      issuer: this.#cert.subjectName.toJSON(),
      signingKey: this.#key,
      publicKey,
      signingAlgorithm: ALGORITHM,
      ...validity(request.notAfter),
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([
          request.usage === "server" ? serverAuth : clientAuth,
        ]),
        ...names.length === 0
          ? []
          : [new x509.SubjectAlternativeNameExtension(names)],
        await x509.SubjectKeyIdentifierExtension.create(publicKey),
        await x509.AuthorityKeyIdentifierExtension.create(this.#cert),
      ],
    });
    const pkcs8 = await crypto.subtle.exportKey("pkcs8", privateKey);
    const key = x509.PemConverter.encode(pkcs8, "PRIVATE KEY");
    return { cert: `${cert.toString("pem")}\n`, key: `${key}\n` };
  }
}

/** Starts a day early, and before the end of an expired certificate. */
function validity(notAfter = Date.now() + 365 * DAY_MS): {
  readonly notBefore: Date;
  readonly notAfter: Date;
} {
  const notBefore = Math.min(Date.now(), notAfter) - DAY_MS;
  return { notBefore: new Date(notBefore), notAfter: new Date(notAfter) };
}

async function generateKeys(): Promise<CryptoKeyPair> {
  return await crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
}

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
