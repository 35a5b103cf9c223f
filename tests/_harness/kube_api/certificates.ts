/**
 * X.509 certificates for tests: an authority, and what it signs. All keys are
 * P-256, so that a certificate takes a millisecond.
 *
 * @module
 */

import * as der from "./der.ts";

const OID = {
  commonName: "2.5.4.3",
  organization: "2.5.4.10",
  ecPublicKeyWithSha256: "1.2.840.10045.4.3.2",
  subjectKeyId: "2.5.29.14",
  authorityKeyId: "2.5.29.35",
  subjectAltName: "2.5.29.17",
  basicConstraints: "2.5.29.19",
  keyUsage: "2.5.29.15",
  extendedKeyUsage: "2.5.29.37",
  serverAuth: "1.3.6.1.5.5.7.3.1",
  clientAuth: "1.3.6.1.5.5.7.3.2",
} as const;

const KEY = { name: "ECDSA", namedCurve: "P-256" } as const;
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
  /** Addresses, as bytes. */
  readonly ipAddresses?: readonly Uint8Array[];
  /** Expiry, in ms since 1970; in a year if undefined. */
  readonly notAfter?: number;
}

/** A certificate authority. */
export class CertificateAuthority {
  readonly #commonName: string;
  readonly #key: CryptoKey;
  readonly #keyId: Uint8Array;
  /** PEM of its own certificate. */
  readonly pem: string;

  private constructor(
    commonName: string,
    { key, keyId }: { key: CryptoKey; keyId: Uint8Array },
    pem: string,
  ) {
    this.#commonName = commonName;
    this.#key = key;
    this.#keyId = keyId;
    this.pem = pem;
  }

  /** Creates an authority with a self-signed certificate. */
  static async create(commonName: string): Promise<CertificateAuthority> {
    const { privateKey: key, publicKey } = await generateKeys();
    const spki = await exportPublicKey(publicKey);
    const keyId = await hashKey(spki);
    const cert = await sign({
      issuer: name(commonName),
      signer: key,
      subject: name(commonName),
      publicKey: spki,
      notAfter: Date.now() + 365 * DAY_MS,
      extensions: [
        extension(OID.basicConstraints, der.sequence(der.boolean(true)), true),
        extension(OID.keyUsage, der.bitString(Uint8Array.of(0x06), 1), true),
        extension(OID.subjectKeyId, der.octetString(keyId)),
      ],
    });
    return new CertificateAuthority(commonName, { key, keyId }, cert);
  }

  /** Issues a certificate with a new key. */
  async issue(request: CertificateRequest): Promise<Certificate> {
    const { publicKey, privateKey } = await generateKeys();
    const spki = await exportPublicKey(publicKey);
    const authorityKeyId = der.sequence(der.implicit(0, this.#keyId));
    const cert = await sign({
      issuer: name(this.#commonName),
      signer: this.#key,
      subject: name(request.commonName, request.organizations),
      publicKey: spki,
      notAfter: request.notAfter ?? Date.now() + 365 * DAY_MS,
      extensions: [
        ...extensionsOf(request),
        extension(OID.subjectKeyId, der.octetString(await hashKey(spki))),
        extension(OID.authorityKeyId, authorityKeyId),
      ],
    });
    const pkcs8 = await crypto.subtle.exportKey("pkcs8", privateKey);
    return { cert, key: pem("PRIVATE KEY", new Uint8Array(pkcs8)) };
  }
}

/** The content of a certificate, and its signer. */
interface Content {
  readonly issuer: Uint8Array;
  readonly signer: CryptoKey;
  readonly subject: Uint8Array;
  /** As SubjectPublicKeyInfo. */
  readonly publicKey: Uint8Array;
  readonly notAfter: number;
  readonly extensions: readonly Uint8Array[];
}

/** Signs a certificate, and returns its PEM. Source: RFC 5280 section 4.1. */
async function sign(content: Content): Promise<string> {
  const algorithm = der.sequence(der.oid(OID.ecPublicKeyWithSha256));
  const toBeSigned = der.sequence(
    der.explicit(0, der.integer(Uint8Array.of(2))),
    der.integer(crypto.getRandomValues(new Uint8Array(16))),
    algorithm,
    content.issuer,
    // Begins a day early, and before its end if that is over.
    der.sequence(
      der.time(Math.min(Date.now(), content.notAfter) - DAY_MS),
      der.time(content.notAfter),
    ),
    content.subject,
    content.publicKey,
    der.explicit(3, der.sequence(...content.extensions)),
  );
  const signature = await crypto.subtle.sign(
    { ...KEY, hash: "SHA-256" },
    content.signer,
    Uint8Array.from(toBeSigned),
  );
  const certificate = der.sequence(
    toBeSigned,
    algorithm,
    der.bitString(encodeSignature(new Uint8Array(signature))),
  );
  return pem("CERTIFICATE", certificate);
}

/** WebCrypto has both halves side by side, X.509 as two integers. */
function encodeSignature(signature: Uint8Array): Uint8Array {
  return der.sequence(
    der.integer(signature.subarray(0, 32)),
    der.integer(signature.subarray(32)),
  );
}

async function generateKeys(): Promise<CryptoKeyPair> {
  return await crypto.subtle.generateKey(KEY, true, ["sign", "verify"]);
}

async function exportPublicKey(key: CryptoKey): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.exportKey("spki", key));
}

/** Computes a key identifier. Source: RFC 7093 section 2. */
async function hashKey(spki: Uint8Array): Promise<Uint8Array> {
  const hash = await crypto.subtle.digest("SHA-256", Uint8Array.from(spki));
  return new Uint8Array(hash).subarray(0, 20);
}

/** Groups come before the name, as `kubeadm` has them. */
function name(
  commonName: string,
  organizations: readonly string[] = [],
): Uint8Array {
  const attributes = [
    ...organizations.map((text) => [OID.organization, text] as const),
    [OID.commonName, commonName] as const,
  ];
  return der.sequence(
    ...attributes.map(([type, text]) =>
      der.set(der.sequence(der.oid(type), der.utf8(text)))
    ),
  );
}

function extensionsOf(request: CertificateRequest): Uint8Array[] {
  const { usage, dnsNames = [], ipAddresses = [] } = request;
  const auth = usage === "server" ? OID.serverAuth : OID.clientAuth;
  const names = [
    ...dnsNames.map((text) => der.implicit(2, new TextEncoder().encode(text))),
    ...ipAddresses.map((bytes) => der.implicit(7, bytes)),
  ];
  return [
    extension(OID.basicConstraints, der.sequence(), true),
    extension(OID.keyUsage, der.bitString(Uint8Array.of(0x80), 7), true),
    extension(OID.extendedKeyUsage, der.sequence(der.oid(auth))),
    ...(names.length === 0
      ? []
      : [extension(OID.subjectAltName, der.sequence(...names))]),
  ];
}

function extension(
  id: string,
  value: Uint8Array,
  isCritical = false,
): Uint8Array {
  const critical = isCritical ? [der.boolean(true)] : [];
  return der.sequence(der.oid(id), ...critical, der.octetString(value));
}

function pem(label: string, bytes: Uint8Array): string {
  const lines = bytes.toBase64().match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${
    lines.join("\n")
  }\n-----END ${label}-----\n`;
}
