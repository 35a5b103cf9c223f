/**
 * Sends authenticated requests to one API server.
 *
 * @module
 */

import type { Environment } from "../cni/args.ts";
import { CniError, describeError, ErrorCode } from "../cni/error.ts";
import { waitUntil } from "../cni/deadline.ts";
import type {
  Access,
  ClientCertificate,
  Credentials,
  Header,
} from "./access.ts";
import { type Exchange, readAnswer } from "./answer.ts";
import type { Channel } from "./channel.ts";
import { isSameCertificate } from "./credentials.ts";
import { loadTransport } from "./load_transport.ts";
import { failure, noAnswer } from "./no_answer.ts";
import type { ApiRequest } from "./request.ts";
import { settleTrust } from "./trust.ts";
import type { HttpRequest, OpenTransport, Transport } from "./transport.ts";

/** This client's name in the server's audit log. */
const USER_AGENT = "cni-plugins";

/** A channel to one API server. Dispose of it to close its connections. */
export class Connection implements Channel {
  readonly #access: Access;
  readonly #open: OpenTransport;
  #certificate: ClientCertificate | undefined;
  #transport: Transport;

  private constructor(access: Access, open: OpenTransport) {
    this.#access = access;
    this.#open = open;
    this.#certificate = access.credentials.known?.certificate;
    this.#transport = open(access, this.#certificate);
  }

  /**
   * Prepares the transport and the credentials, without connecting.
   *
   * @param env This process's environment
   * @throws {CniError} 7 if certificates or keys are invalid
   */
  static async open(access: Access, env: Environment): Promise<Connection> {
    const settled = settleTrust(access, env);
    const open = await loadTransport(settled, env);
    try {
      return new Connection(settled, open);
    } catch (error) {
      throw new CniError(
        ErrorCode.InvalidNetworkConfig,
        `Cannot use ${access.origin}: ${describeError(error)}`,
      );
    }
  }

  /**
   * Sends a request, and reads its answer.
   *
   * @returns The JSON in the answer
   * @throws {KubeError}
   */
  async exchange<T>(request: ApiRequest, signal: AbortSignal): Promise<T> {
    return await readAnswer<T>(await this.send(request, signal));
  }

  /**
   * Sends a request, and repeats it with new credentials if the server refuses
   * the current ones.
   *
   * @throws {KubeError} If there is no answer
   */
  async send(request: ApiRequest, signal: AbortSignal): Promise<Exchange> {
    const credentials = await this.authenticate(request, signal);
    const exchange = await this.#sendAs(credentials, request, signal);
    if (exchange.answer.status !== 401) return exchange;
    this.#access.credentials.renew(credentials);
    const renewed = await this.authenticate(request, signal);
    if (renewed === credentials) return exchange;
    await exchange.answer.body?.cancel();
    return await this.#sendAs(renewed, request, signal);
  }

  /**
   * Gets credentials, which takes time if a program provides them.
   *
   * @throws {KubeError} If there are none
   */
  async authenticate(
    request: ApiRequest,
    signal: AbortSignal | undefined,
  ): Promise<Credentials> {
    const named = { method: request.method, url: this.#urlOf(request) };
    const { credentials } = this.#access;
    const pending = credentials.get().catch((error) => {
      throw failure(named, `getting credentials: ${describeError(error)}`);
    });
    if (signal === undefined) return await pending;
    const found = await waitUntil(pending, signal);
    if (found === undefined) throw noAnswer(named, undefined, signal);
    return found;
  }

  async #sendAs(
    { authorization, certificate }: Credentials,
    apiRequest: ApiRequest,
    signal: AbortSignal,
  ): Promise<Exchange> {
    const request = this.#describe(apiRequest, authorization);
    try {
      const transport = this.#transportFor(certificate);
      const answer = await transport.send(request, signal);
      return { request, answer, signal };
    } catch (error) {
      throw noAnswer(request, error, signal);
    }
  }

  #describe(
    request: ApiRequest,
    authorization: string | undefined,
  ): HttpRequest {
    const { method, body, contentType } = request;
    const headers: Header[] = [
      ["Accept", "application/json"],
      ["User-Agent", USER_AGENT],
      ...this.#access.impersonation,
    ];
    if (authorization !== undefined) {
      headers.push(["Authorization", authorization]);
    }
    const url = this.#urlOf(request);
    if (contentType !== undefined) {
      headers.push(["Content-Type", contentType]);
    }
    return { method, url, headers, ...body === undefined ? {} : { body } };
  }

  #urlOf({ path }: ApiRequest): string {
    return this.#access.server + path;
  }

  /**
   * A connection has one client certificate, so each certificate needs its own
   * transport.
   */
  #transportFor(certificate: ClientCertificate | undefined): Transport {
    if (isSameCertificate(certificate, this.#certificate)) {
      return this.#transport;
    }
    try {
      const next = this.#open(this.#access, certificate);
      this.#transport[Symbol.dispose]();
      this.#certificate = certificate;
      this.#transport = next;
    } catch {
      // The file is half written; the current certificate stays valid for a
      // while.
    }
    return this.#transport;
  }

  /** Closes the connections. */
  [Symbol.dispose](): void {
    this.#transport[Symbol.dispose]();
  }
}
