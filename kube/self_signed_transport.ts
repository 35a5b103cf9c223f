/**
 * Servers whose certificate is their own authority.
 *
 * @module
 */

import { describeError } from "../cni/error.ts";
import type { HttpAnswer, HttpRequest, Transport } from "./transport.ts";

/** What `fetch` says of a server's certificate that could sign others. */
const IS_AUTHORITY = /CaUsedAsEndEntity/;

/**
 * Goes over to another transport where the first one does not accept the very
 * certificate that it is to trust, for it is one that could sign others. Go
 * does, and many a server that is set up by hand has such a certificate.
 */
export class SelfSignedTransport implements Transport {
  readonly #first: Transport;
  readonly #load: () => Promise<Transport>;
  #other: Promise<Transport> | undefined;

  /**
   * Begins with a transport.
   *
   * @param load Opens the one to go over to
   */
  constructor(first: Transport, load: () => Promise<Transport>) {
    this.#first = first;
    this.#load = load;
  }

  /** Sends a request; once more if it was not sent because of the certificate. */
  async send(request: HttpRequest, signal: AbortSignal): Promise<HttpAnswer> {
    if (this.#other === undefined) {
      try {
        return await this.#first.send(request, signal);
      } catch (error) {
        if (!IS_AUTHORITY.test(describeError(error))) throw error;
        this.#other ??= this.#load();
      }
    }
    const other = await this.#other;
    return await other.send(request, signal);
  }

  /** Closes the connections. */
  [Symbol.dispose](): void {
    this.#first[Symbol.dispose]();
    this.#other?.then((other) => other[Symbol.dispose](), () => {});
  }
}
