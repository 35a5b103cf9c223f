/**
 * Credentials that are in a configuration, or in files that it names, and how a
 * request shows them.
 *
 * @module
 */

import type {
  ClientCertificate,
  Credentials,
  CredentialSource,
} from "./access.ts";

/** How long what was read from files is used, in milliseconds. */
const FILE_LIFETIME_MS = 60_000;

/**
 * Credentials in files, which somebody replaces before they expire. They are
 * read again once a minute, as long as they are asked for.
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
   * @param read Reads them
   * @param now Milliseconds from any moment on
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

  /** What the files said. */
  get known(): Credentials {
    return this.#current;
  }

  /** Returns what the files say, or if they cannot be read, what they said. */
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
      // They are being replaced: what they said may be good for a while.
    }
  }

  /** Has the files read the next time. */
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

/** Says whether two certificates are one; none is like none. */
export function isSameCertificate(
  left: ClientCertificate | undefined,
  right: ClientCertificate | undefined,
): boolean {
  return left?.cert === right?.cert && left?.key === right?.key;
}
