/**
 * Connects to servers with a self-signed certificate.
 *
 * @module
 */

import { describeError } from "../cni/error.ts";
import type { HttpAnswer, HttpRequest, Transport } from "./transport.ts";

/** Matches `fetch`'s error for a server certificate that is an authority. */
const IS_AUTHORITY = /CaUsedAsEndEntity/;

/**
 * Switches to another transport if the first one refuses the trusted
 * certificate itself because it is an authority's. Go accepts it, and many
 * servers that were set up by hand have such a certificate.
 */
export class SelfSignedTransport implements Transport {
  readonly #first: Transport;
  readonly #load: () => Promise<Transport>;
  #other: Promise<Transport> | undefined;

  /**
   * Starts with the first transport.
   *
   * @param load Opens the other transport
   */
  constructor(first: Transport, load: () => Promise<Transport>) {
    this.#first = first;
    this.#load = load;
  }

  /**
   * Sends a request, and repeats it with the other transport if the certificate
   * kept it from being sent.
   */
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
