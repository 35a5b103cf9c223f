/**
 * The address of an API server, and the credentials for it.
 *
 * @module
 */

export type Header = readonly [name: string, value: string];

/** A client certificate and its private key, as PEM. */
export interface ClientCertificate {
  readonly cert: string;
  readonly key: string;
}

/** Authenticates the client to the server. */
export interface Credentials {
  /** Value of the `Authorization` header. */
  readonly authorization?: string;
  readonly certificate?: ClientCertificate;
}

/** A source of credentials that may change. */
export interface CredentialSource {
  /** The credentials that are available without running a program. */
  readonly known: Credentials | undefined;
  /**
   * Returns the current credentials: the same object until they change.
   *
   * @throws {Error} Without them; the message has the reason, and no
   *   secrets
   */
  get(): Promise<Credentials>;
  /**
   * Makes the next `get()` fetch new credentials, unless the credentials have
   * already changed.
   */
  renew(refused: Credentials): void;
}

/** How to reach an API server. */
export interface Access {
  /** The source of this, as error messages name it. */
  readonly origin: string;
  /** URL without a trailing slash; it may have a path. */
  readonly server: string;
  /** PEM; the only trusted authorities. If empty, the node's are trusted. */
  readonly caCerts: readonly string[];
  readonly isInsecure: boolean;
  /** The name in the server's certificate, if it differs from the URL's. */
  readonly tlsServerName?: string;
  /** URL of a proxy: `http`, `https`, `socks5` or `socks5h`. */
  readonly proxyUrl?: string;
  /** Headers to impersonate another user. */
  readonly impersonation: readonly Header[];
  readonly credentials: CredentialSource;
}
