/**
 * Finds the API server, and sends authenticated requests to it.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../base/error.ts";
import { waitUntil } from "../base/deadline.ts";
import type {
  Access,
  ClientCertificate,
  Credentials,
  Header,
} from "./access.ts";
import type { Exchange } from "./answer.ts";
import { isSameCertificate } from "./credentials.ts";
import { readInCluster } from "./in_cluster.ts";
import { loadTransport } from "./load_transport.ts";
import { failure, noAnswer } from "./no_answer.ts";
import { type KubeRequest, withQuery } from "./request.ts";
import type {
  HttpRequest,
  OpenTransport,
  Transport,
  TransportOptions,
} from "./transport.ts";
import { settleTrust } from "./trust.ts";

/** A channel to an API server. Dispose of it to close its connections. */
export interface Channel extends Disposable {
  /**
   * Gets credentials, which takes time but does not count as part of the
   * request.
   *
   * @throws {KubeError} Without credentials
   */
  authenticate(
    request: KubeRequest,
    signal: AbortSignal | undefined,
  ): Promise<unknown>;
  /**
   * Sends a request; returns any answer, errors included.
   *
   * @throws {KubeError} Without an answer
   */
  send(request: KubeRequest, signal: AbortSignal): Promise<Exchange>;
}

/** Configures how the API server is found. */
export interface ConnectionOptions extends TransportOptions {
  /**
   * Path of a kubeconfig; if absent or "", the pod's service account is used.
   */
  readonly kubeconfig?: string | undefined;
}

/**
 * Prepares the transport and the credentials, without connecting.
 *
 * @returns Undefined without a kubeconfig outside of a pod
 * @throws {CniError} 7 if the kubeconfig, or a file it refers to, is unusable
 */
export async function openConnection(
  { kubeconfig, ...options }: ConnectionOptions,
): Promise<Channel | undefined> {
  if (!kubeconfig) {
    const access = readInCluster(options.env);
    return access && await Connection.open(access, options);
  }
  const { readKubeconfig } = await import("./kubeconfig.ts");
  const access = await readKubeconfig(kubeconfig, options.env);
  return await Connection.open(access, options);
}

/** This client's name in the server's audit log. */
const USER_AGENT = "cni-plugins";
const JSON_TYPE = "application/json";
/**
 * Source: k8s.io/client-go metadata/metadata.go `Patch`. A server that cannot leave
 * out the rest sends the object.
 */
const METADATA_TYPES =
  `${JSON_TYPE};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,${JSON_TYPE}`;

/** A channel that repeats a request with new credentials if necessary. */
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
   * Prepares the transport, without connecting.
   *
   * @throws {CniError} 7 if certificates or keys are invalid
   */
  static async open(
    access: Access,
    options: TransportOptions,
  ): Promise<Connection> {
    const settled = settleTrust(access, options.env);
    const open = await loadTransport(settled, options);
    try {
      return new Connection(settled, open);
    } catch (error) {
      throw new CniError(
        ErrorCode.InvalidNetworkConfig,
        `Cannot use ${access.origin}: ${describeError(error)}`,
      );
    }
  }

  async send(request: KubeRequest, signal: AbortSignal): Promise<Exchange> {
    const credentials = await this.authenticate(request, signal);
    const exchange = await this.#sendAs(credentials, request, signal);
    if (exchange.answer.status !== 401) return exchange;
    this.#access.credentials.renew(credentials);
    const renewed = await this.authenticate(request, signal);
    if (renewed === credentials) return exchange;
    await exchange.answer.body?.cancel();
    return await this.#sendAs(renewed, request, signal);
  }

  /** Gets credentials. */
  async authenticate(
    request: KubeRequest,
    signal: AbortSignal | undefined,
  ): Promise<Credentials> {
    const named = this.#describe(request);
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
    apiRequest: KubeRequest,
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
    { method = "GET", path, query, body, contentType = JSON_TYPE, ...wish }:
      KubeRequest,
    authorization?: string,
  ): HttpRequest {
    const headers: Header[] = [
      ["Accept", wish.onlyMetadata ? METADATA_TYPES : JSON_TYPE],
      ["User-Agent", USER_AGENT],
      ...this.#access.impersonation,
    ];
    if (authorization !== undefined) {
      headers.push(["Authorization", authorization]);
    }
    const url = this.#access.server + withQuery(path, query);
    if (body === undefined) return { method, url, headers };
    headers.push(["Content-Type", contentType]);
    return { method, url, headers, body: JSON.stringify(body) };
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

  [Symbol.dispose](): void {
    this.#transport[Symbol.dispose]();
  }
}
