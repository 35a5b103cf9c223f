/**
 * What it takes to reach an API server and to be somebody there.
 *
 * @module
 */

/** A header, by name and value. */
export type Header = readonly [name: string, value: string];

/** A certificate of ours and its private key, as PEM. */
export interface ClientCertificate {
  readonly cert: string;
  readonly key: string;
}

/** What shows the server who we are. */
export interface Credentials {
  /** Value of the `Authorization` header. */
  readonly authorization?: string;
  readonly certificate?: ClientCertificate;
}

/** Where credentials come from that may change. */
export interface CredentialSource {
  /** What is known without running a program for it. */
  readonly known: Credentials | undefined;
  /**
   * Returns the credentials of now; the same object, as long as they do not
   * change.
   *
   * @throws {Error} If there are none; it says why, and nothing secret
   */
  get(): Promise<Credentials>;
  /** Has the next `get()` look for others, if these are still the current ones. */
  renew(refused: Credentials): void;
}

/** The way to an API server. */
export interface Access {
  /** Where this is from, as error messages shall call it. */
  readonly origin: string;
  /** URL, perhaps with a path, without a slash at the end. */
  readonly server: string;
  /** PEM; the only authorities that are trusted. If empty, those of the node are. */
  readonly caCerts: readonly string[];
  readonly isInsecure: boolean;
  /** The name in the server's certificate, if it is not that in the URL. */
  readonly tlsServerName?: string;
  /** URL of a proxy: `http`, `https`, `socks5` or `socks5h`. */
  readonly proxyUrl?: string;
  /** Headers by which we act for another user. */
  readonly impersonation: readonly Header[];
  readonly credentials: CredentialSource;
}
