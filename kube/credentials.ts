/**
 * Credentials from a configuration or from files that it names, and their form
 * in a request.
 *
 * @module
 */

import type {
  ClientCertificate,
  Credentials,
  CredentialSource,
} from "./access.ts";

/** How long credentials from files are cached, in milliseconds. */
const FILE_LIFETIME_MS = 60_000;

/**
 * Credentials in files, which another program replaces before they expire.
 * While in use, they are read again once a minute.
 *
 * Source: client-go transport/token_source.go `NewCachedFileTokenSource`.
 */
export class FileCredentials implements CredentialSource {
  readonly #read: () => Credentials;
  readonly #now: () => number;
  #current: Credentials;
  #staleAtMs: number;

  /**
   * Reads the files.
   *
   * @param read Reads and returns the credentials
   * @param now Milliseconds from an arbitrary start
   * @throws What `read` throws
   */
  constructor(
    read: () => Credentials,
    now: () => number = () => performance.now(),
  ) {
    this.#read = read;
    this.#now = now;
    this.#current = read();
    this.#staleAtMs = now() + FILE_LIFETIME_MS;
  }

  /** The credentials that were read last. */
  get known(): Credentials {
    return this.#current;
  }

  /**
   * Returns the credentials in the files, or the credentials that were read last if
   * the files cannot be read.
   */
  get(): Promise<Credentials> {
    if (this.#now() >= this.#staleAtMs) this.#refresh();
    return Promise.resolve(this.#current);
  }

  #refresh(): void {
    try {
      const read = this.#read();
      if (!isSame(read, this.#current)) this.#current = read;
      this.#staleAtMs = this.#now() + FILE_LIFETIME_MS;
    } catch {
      // The files are being replaced: the old credentials may still be valid.
    }
  }

  /** Makes the next `get()` read the files. */
  renew(refused: Credentials): void {
    if (refused === this.#current) this.#staleAtMs = -Infinity;
  }
}

/** Formats a bearer token as the value of a header. */
export function bearer(token: string): string {
  return `Bearer ${token}`;
}

/**
 * Formats a name and a password as the value of a header.
 *
 * Source: RFC 7617; Go net/http `Request.SetBasicAuth`.
 */
export function basic(username: string, password: string): string {
  const bytes = new TextEncoder().encode(`${username}:${password}`);
  return `Basic ${bytes.toBase64()}`;
}

function isSame(left: Credentials, right: Credentials): boolean {
  return left.authorization === right.authorization &&
    isSameCertificate(left.certificate, right.certificate);
}

/** Reports whether two certificates are equal; undefined equals undefined. */
export function isSameCertificate(
  left: ClientCertificate | undefined,
  right: ClientCertificate | undefined,
): boolean {
  return left?.cert === right?.cert && left?.key === right?.key;
}
