/**
 * An API server for tests: HTTPS with its own certificates, the resources that this
 * project uses, and faults.
 *
 * ```ts ignore
 * await using api = await KubeApi.start();
 * api.putPod({ metadata: { name: "p1", namespace: "test" } });
 * api.putNad("test", "net1", { type: "macvlan" });
 * const kubeconfig = api.writeKubeconfig(directory, "token");
 * ...
 * assertEquals(api.networkStatus("test", "p1"), [...]);
 * ```
 *
 * It supports HTTP/1.1 only, as this project's clients do, and answers like a real
 * server wherever clients depend on it. A real server answers a PATCH with a different
 * `metadata.uid` with 422, `Pod "x" is invalid: metadata.uid: Invalid value: "u1":
 * field is immutable`, and with 409 only if the `resourceVersion` differs. It answers a
 * PUT with 409 in both cases.
 *
 * It runs in the process of the test, so blocking calls must not wait for it: start
 * programs with `spawnIn()`, not `execIn()`. Declare it after `TestHosts`, which
 * requires that all descriptors are closed at the end. In a namespace it listens on all
 * addresses.
 *
 * @module
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { NetNs } from "../../ffi/netns.ts";
import { FIRST_PAUSE_MS } from "../retry.ts";
import { AccessControl } from "./access.ts";
import {
  type Certificate,
  type Credentials,
  issueServerCertificate,
  SERVER_NAME,
  sharedCredentials,
} from "./certificates.ts";
import { ObjectStore } from "./store.ts";
import { Exchange, Listener } from "./http.ts";
import { type Fault, FaultList, type FaultRule } from "./faults.ts";
import {
  type KubeconfigKind,
  type KubeconfigOverrides,
  writeKubeconfig,
} from "./kubeconfig.ts";
import type { ResourceName } from "./objects.ts";
import { type LoggedRequest, RequestHandler } from "./requests.ts";

export type { Certificate } from "./certificates.ts";
export type { Fault, FaultRule } from "./faults.ts";
export type { KubeconfigKind, KubeconfigOverrides } from "./kubeconfig.ts";
export type { KubeObject, NewObject, ResourceName } from "./objects.ts";
export type { LoggedRequest } from "./requests.ts";

/** How an API server is reached. */
export interface KubeApiOptions {
  /** `https` if undefined. */
  readonly transport?: "https" | "http" | "unix";
  /** The namespace to listen in, with its loopback up; the machine's if undefined. */
  readonly netns?: NetNs;
  /** `127.0.0.1` or `::1`, the former if undefined. */
  readonly hostname?: string;
  /** Any free port if undefined. */
  readonly port?: number;
  /** The only names in its certificate, without addresses; its own names and addresses if undefined. */
  readonly serverNames?: readonly string[];
  /** Whether its certificate has expired. */
  readonly isExpired?: boolean;
  /** Whether it refuses clients without a valid certificate, with a TLS alert. */
  readonly needsCertificate?: boolean;
}

/** An API server. */
export class KubeApi extends ObjectStore implements AsyncDisposable {
  /** A name in the server's certificate, in addition to its addresses. */
  static readonly serverName = SERVER_NAME;

  /** A valid bearer token, until it is revoked. */
  readonly token: string;
  /** Path of the socket, for transport `unix`. */
  readonly socketPath: string | undefined;
  readonly #options: KubeApiOptions;
  readonly #credentials: Credentials;
  readonly #listener: Listener;
  readonly #access = new AccessControl();
  readonly #faults = new FaultList();
  readonly #handler = new RequestHandler(
    this,
    this.#access,
    this.#faults,
  );
  readonly #stack = new DisposableStack();

  private constructor(
    options: KubeApiOptions,
    credentials: Credentials,
    serverCertificate: Certificate,
  ) {
    super();
    this.#options = options;
    this.#credentials = credentials;
    this.token = this.#access.addToken();
    this.socketPath = options.transport === "unix"
      ? this.#makeSocketPath()
      : undefined;
    const ca = credentials.authority.pem;
    this.#listener = new Listener({
      tls: this.#hasTls ? { ...serverCertificate, ca } : undefined,
      needsCertificate: options.needsCertificate ?? false,
      netns: options.netns,
      hostname: options.hostname ?? "127.0.0.1",
      port: options.port ?? 0,
      socketPath: this.socketPath,
      onRequest: (incoming, outgoing) => void this.#receive(incoming, outgoing),
    });
  }

  /** Starts a server with nothing in it. */
  static async start(options: KubeApiOptions = {}): Promise<KubeApi> {
    const credentials = await sharedCredentials();
    const { serverNames, isExpired = false } = options;
    const isSpecial = serverNames !== undefined || isExpired;
    const certificate = isSpecial
      ? await issueServerCertificate(
        credentials.authority,
        serverNames,
        isExpired ? { notAfter: Date.now() - 1_000 } : {},
      )
      : credentials.server;
    const api = new KubeApi(options, credentials, certificate);
    await api.#listener.open();
    return api;
  }

  /** URL, as in a kubeconfig: `https://127.0.0.1:6443`. */
  get url(): string {
    if (this.socketPath !== undefined) return "http://localhost";
    const { hostname = "127.0.0.1" } = this.#options;
    const host = hostname.includes(":") ? `[${hostname}]` : hostname;
    return `${this.#hasTls ? "https" : "http"}://${host}:${this.port}`;
  }

  /** The port, which a restart does not change. */
  get port(): number {
    return this.#listener.port;
  }

  /** PEM of the authority that signed the certificates of server and clients. */
  get caPem(): string {
    return this.#credentials.authority.pem;
  }

  /** A client certificate of `multus`, in group `system:multus`. */
  get clientCert(): Certificate {
    return this.#credentials.client;
  }

  /** Removes the API group of a resource, as if its CRD was not installed: 404, in plain text. */
  uninstall(resource: ResourceName): void {
    this.#handler.uninstall(resource);
  }

  /** Counts the active watches. */
  get watchCount(): number {
    return this.#handler.watches.size;
  }

  /** Sends a bookmark to all watches that accept them. */
  sendBookmarks(): void {
    for (const watch of this.#handler.watches) watch.bookmark();
  }

  /** Closes all watches gracefully. */
  endWatches(): void {
    for (const watch of [...this.#handler.watches]) watch.end();
  }

  /** Lists the received requests. */
  get requests(): readonly LoggedRequest[] {
    return this.#handler.requests;
  }

  /**
   * Lists the requests of a method.
   *
   * @param method "" for all
   * @param path Matched against path and query
   */
  requestsOf(method: string, path: RegExp = /(?:)/): LoggedRequest[] {
    return this.requests.filter((request) =>
      (method === "" || request.method === method) &&
      request.path.search(path) >= 0
    );
  }

  /**
   * Lists the received requests without repetitions: a client repeats a request after a
   * pause if a busy machine did not answer within the time limit of a try.
   */
  get distinctRequests(): LoggedRequest[] {
    return this.requests.filter((request, index, all) =>
      !all.slice(0, index).some((earlier) => isRepeated(earlier, request))
    );
  }

  /** Forgets the requests so far. */
  clearRequests(): void {
    this.#handler.clearRequests();
  }

  /** Counts the established connections; with TLS, after the handshake. */
  get connections(): number {
    return this.#listener.connections;
  }

  /** The protocols that clients have offered over TLS, such as `h2` and `http/1.1`. */
  get offeredProtocols(): ReadonlySet<string> {
    return this.#listener.offeredProtocols;
  }

  /** Makes requests fail. If several rules match, the first one applies. */
  fault(rule: FaultRule): Fault {
    return this.#faults.add(rule);
  }

  /** Removes all faults. */
  clearFaults(): void {
    this.#faults.clear();
  }

  /**
   * Denies a verb on a resource with 403.
   *
   * @param verb get, list, watch, create, update, patch, delete; `*` for all
   * @param resource As `pods` or `pods/status`; `*` for all
   */
  forbid(verb: string, resource: string): void {
    this.#access.forbid(verb, resource);
  }

  /** Undoes `forbid()` with the same arguments. */
  allow(verb: string, resource: string): void {
    this.#access.allow(verb, resource);
  }

  /**
   * Creates an additional valid token.
   *
   * @param user `system:serviceaccount:kube-system:multus` if undefined
   */
  addToken(user?: string): string {
    return this.#access.addToken(user);
  }

  /** Revokes a token: 401. */
  revokeToken(token: string): void {
    this.#access.revokeToken(token);
  }

  /**
   * Issues a client certificate.
   *
   * @param options.notAfter When it expires, in ms since 1970; in a year if undefined
   */
  issueClientCert(
    user: string,
    options: { readonly notAfter?: number } = {},
  ): Promise<Certificate> {
    return this.#credentials.authority.issue({
      commonName: user,
      usage: "client",
      ...options,
    });
  }

  /** Closes all connections, and refuses new connections. */
  async stop(): Promise<void> {
    this.#handler.stop();
    await this.#listener.close();
  }

  /** Listens again on the same port, with the same objects. Watches from earlier versions get 410. */
  async restart(): Promise<void> {
    await this.stop();
    this.restartWatchCache();
    await this.#listener.open();
  }

  /** Closes all connections, and accepts new connections without ever answering, until `restart()`. */
  async blackhole(): Promise<void> {
    await this.stop();
    await this.#listener.openSilently();
  }

  /**
   * Writes a kubeconfig, and the files that it names, into a directory.
   *
   * @returns Its path
   */
  writeKubeconfig(
    directory: string,
    kind: KubeconfigKind = "token",
    overrides: KubeconfigOverrides = {},
  ): string {
    const { url, token, clientCert } = this;
    const caPem = this.#hasTls ? this.caPem : undefined;
    const target = { url, token, clientCert, caPem };
    return writeKubeconfig(target, directory, kind, overrides);
  }

  /** Writes the files of a pod's service account: `token`, `ca.crt`, `namespace`. */
  writeServiceAccount(directory: string): void {
    Deno.writeTextFileSync(`${directory}/token`, this.token);
    Deno.writeTextFileSync(`${directory}/ca.crt`, this.caPem);
    Deno.writeTextFileSync(`${directory}/namespace`, "kube-system");
  }

  /** Returns the variables that name the API server to a pod. */
  inClusterEnvironment(): {
    KUBERNETES_SERVICE_HOST: string;
    KUBERNETES_SERVICE_PORT: string;
  } {
    return {
      KUBERNETES_SERVICE_HOST: this.#options.hostname ?? "127.0.0.1",
      KUBERNETES_SERVICE_PORT: String(this.port),
    };
  }

  /** Stops the server, and closes all connections. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    this.#stack.dispose();
  }

  get #hasTls(): boolean {
    return (this.#options.transport ?? "https") === "https";
  }

  #makeSocketPath(): string {
    const directory = Deno.makeTempDirSync({ prefix: "kube-api-" });
    this.#stack.defer(() => Deno.removeSync(directory, { recursive: true }));
    return `${directory}/api.sock`;
  }

  async #receive(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
  ): Promise<void> {
    const listener = this.#listener;
    const certified = listener.certifiedUser(incoming);
    const cut = (): void => listener.cut(incoming);
    const exchange = await Exchange.read(incoming, outgoing, cut);
    if (exchange !== undefined) await this.#handler.handle(exchange, certified);
  }
}

function isRepeated(earlier: LoggedRequest, later: LoggedRequest): boolean {
  return earlier.method === later.method && earlier.path === later.path &&
    earlier.body === later.body && later.at - earlier.at >= FIRST_PAUSE_MS;
}
