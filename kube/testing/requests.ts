/**
 * Handles requests: each request is logged, might meet a fault, is checked, and is then
 * carried out.
 *
 * @module
 */

import type { AccessControl } from "./access.ts";
import type { FaultList, FaultRule } from "./faults.ts";
import type { Exchange } from "./http.ts";
import {
  apiVersionOf,
  type Resource,
  type ResourceName,
  resources,
} from "./objects.ts";
import { type Answer, type ApiCall, perform } from "./operations.ts";
import {
  forbidden,
  forbiddenPath,
  notAcceptable,
  StatusError,
  tooLarge,
  unauthorized,
} from "./status.ts";
import type { ObjectStore } from "./store.ts";
import { findTarget, verbOf } from "./target.ts";
import { Watch, type WatchCall } from "./watch.ts";

const NOT_FOUND: Answer = { status: 404, body: "404 page not found\n" };

/** The user of requests without credentials. */
const ANONYMOUS = "system:anonymous";

/** Source: k8s.io/apiserver pkg/server/config.go `MaxRequestBodyBytes`. */
const MAX_BODY_BYTES = 3 * 2 ** 20;

const PUBLIC = /^\/(healthz|livez|readyz|version)(\?|$)/;

const TROUBLES: Readonly<Record<number, readonly [string, string]>> = {
  401: ["Unauthorized", "Unauthorized"],
  403: ["Forbidden", "forbidden"],
  404: ["NotFound", "the server could not find the requested resource"],
  408: [
    "Timeout",
    "Timeout: request did not complete within requested timeout",
  ],
  409: ["Conflict", "the object has been modified"],
  429: ["TooManyRequests", "Too many requests, please try again later."],
  500: ["InternalError", "Internal error occurred: etcdserver: leader changed"],
  503: [
    "ServiceUnavailable",
    "the server is currently unable to handle the request",
  ],
  504: [
    "Timeout",
    "Timeout: request did not complete within requested timeout",
  ],
};

/** A received request. */
export interface LoggedRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  /** The user; undefined if unknown. */
  readonly user: string | undefined;
  /** In ms, by `performance.now()`. */
  readonly at: number;
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string>>;
  /** `1.1`, of old clients `1.0`. */
  readonly httpVersion: string;
  readonly body: string;
  /** The response; undefined until it is sent. */
  readonly status: number | undefined;
}

/** Handles requests. */
export class RequestHandler {
  readonly #store: ObjectStore;
  readonly #access: AccessControl;
  readonly #faults: FaultList;
  readonly #uninstalled = new Set<string>();
  readonly #watches = new Set<Watch>();
  #stopped = Promise.withResolvers<void>();
  #requests: LoggedRequest[] = [];

  /** Creates a handler that shares its input. */
  constructor(
    store: ObjectStore,
    access: AccessControl,
    faults: FaultList,
  ) {
    this.#store = store;
    this.#access = access;
    this.#faults = faults;
  }

  /** Lists the received requests. */
  get requests(): readonly LoggedRequest[] {
    return this.#requests;
  }

  /** The active watches. */
  get watches(): ReadonlySet<Watch> {
    return this.#watches;
  }

  /** Forgets the requests so far. */
  clearRequests(): void {
    this.#requests = [];
  }

  /** Takes away the group of a resource. */
  uninstall(resource: ResourceName): void {
    this.#uninstalled.add(apiVersionOf(resources[resource]));
  }

  /** Aborts pending work; responses remain unfinished. */
  stop(): void {
    for (const watch of [...this.#watches]) watch.stop();
    this.#stopped.resolve();
    this.#stopped = Promise.withResolvers();
  }

  /**
   * Handles a request.
   *
   * @param certified The user of the client certificate, if any; "" if it is invalid
   */
  async handle(
    exchange: Exchange,
    certified: string | undefined,
  ): Promise<void> {
    const { method, path, headers } = exchange;
    const user = this.#access.findUser(headers["authorization"], certified);
    const entry = this.#log(exchange, user);
    const rule = this.#faults.take(method, path);
    if (!await this.#wait(rule.delayMs)) return;
    if (rule.drop === "before") return exchange.cut();
    const hasProof = certified !== undefined ||
      headers["authorization"] !== undefined;
    const asker = user ?? (hasProof ? undefined : ANONYMOUS);
    const answer = answerOf(rule) ?? this.#answer(exchange, asker);
    if (rule.drop === "after") return exchange.cut();
    entry.status = answer.status;
    if (answer.body !== undefined) exchange.send(answer, rule);
    else if (rule.drop === "mid-body") exchange.breakOff('{"type":"ADD');
  }

  #log(
    { method, path, headers, httpVersion, body }: Exchange,
    user: string | undefined,
  ): { -readonly [Key in keyof LoggedRequest]: LoggedRequest[Key] } {
    const at = performance.now();
    const status = undefined;
    const who = { user, at, status };
    const entry = { method, path, headers, httpVersion, body, ...who };
    this.#requests.push(entry);
    return entry;
  }

  /** Waits. @returns Whether to continue: false if the server was stopped */
  async #wait(ms = 0): Promise<boolean> {
    if (ms === 0) return true;
    const over = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => over.resolve(true), ms);
    const stopped = this.#stopped.promise.then(() => false);
    const goesOn = await Promise.race([over.promise, stopped]);
    clearTimeout(timer);
    return goesOn;
  }

  /** Runs the requested operation. A watch, with an undefined body, streams its own response. */
  #answer(exchange: Exchange, user: string | undefined): Answer {
    try {
      return this.#answerOrThrow(exchange, user);
    } catch (error) {
      if (!(error instanceof StatusError)) throw error;
      return { status: error.code, body: error.toStatus() };
    }
  }

  /** @throws {StatusError} */
  #answerOrThrow(exchange: Exchange, user: string | undefined): Answer {
    const [path = "", query = ""] = exchange.path.split("?", 2);
    checkUser(exchange, user);
    checkSize(exchange);
    checkAccept(exchange);
    const information = findInformation(path);
    if (information !== undefined) return { status: 200, body: information };
    const target = findTarget(path);
    const isThere = target !== undefined &&
      !this.#uninstalled.has(apiVersionOf(target.resource));
    if (!isThere) return NOT_FOUND;
    const parameters = new URLSearchParams(query);
    const verb = verbOf(exchange.method, target, parameters);
    this.#access.check(user ?? "", verb, target);
    const call = { ...target, verb, query: parameters };
    if (verb === "watch") return this.#watch(call, exchange);
    const answer = perform(this.#store, { ...call, ...bodyOf(exchange) });
    const isPartial = (exchange.headers["accept"] ?? "")
      .startsWith(PARTIAL_TYPE);
    return isPartial ? onlyMetadataOf(answer) : answer;
  }

  #watch(call: WatchCall, exchange: Exchange): Answer {
    const watch = new Watch(this.#store, call, () => exchange.startStream());
    this.#watches.add(watch);
    const forget = (): void => void this.#watches.delete(watch);
    watch.onEnd(forget);
    exchange.onClose(() => watch.stop());
    return { status: 200, body: undefined };
  }
}

/** Source: k8s.io/apiserver pkg/endpoints/handlers/response.go */
const PARTIAL_TYPE = "application/json;as=PartialObjectMetadata;";

/** Leaves out of an object everything but its metadata. */
function onlyMetadataOf({ status, body }: Answer): Answer {
  const { metadata } = body as { readonly metadata: unknown };
  const [kind, apiVersion] = ["PartialObjectMetadata", "meta.k8s.io/v1"];
  return { status, body: { kind, apiVersion, metadata } };
}

/**
 * Refuses invalid credentials for every path. Anonymous users can read public paths.
 *
 * @throws {StatusError} 401, 403
 */
function checkUser(
  { method, path }: Exchange,
  user: string | undefined,
): void {
  if (user === undefined) throw unauthorized();
  if (user !== ANONYMOUS || PUBLIC.test(path)) return;
  const [name = ""] = path.split("?", 1);
  const target = findTarget(name);
  if (target === undefined) throw forbiddenPath(user, method, name);
  const query = new URLSearchParams(path.slice(name.length));
  throw forbidden({ ...target, user, verb: verbOf(method, target, query) });
}

/** @throws {StatusError} 413 */
function checkSize({ body }: Exchange): void {
  if (new TextEncoder().encode(body).length > MAX_BODY_BYTES) {
    throw tooLarge(MAX_BODY_BYTES);
  }
}

/** @throws {StatusError} 406 */
function checkAccept({ headers }: Exchange): void {
  const accepted = headers["accept"] ?? "*/*";
  if (!/json|\*/.test(accepted)) throw notAcceptable();
}

function bodyOf(
  { headers, body }: Exchange,
): Pick<ApiCall, "body" | "contentType"> {
  const [type = ""] = (headers["content-type"] ?? "").split(";");
  return { body, contentType: type.trim() };
}

/** The response of a fault, or undefined. */
function answerOf({ status, body }: FaultRule): Answer | undefined {
  if (status === undefined && body === undefined) return undefined;
  const code = status ?? 200;
  return { status: code, body: body ?? statusOf(code) };
}

/** As the server words its own troubles. Source: k8s.io/apimachinery errors.go */
function statusOf(code: number): unknown {
  const [reason, message] = TROUBLES[code] ?? ["", `HTTP status ${code}`];
  return new StatusError(code, reason, message).toStatus();
}

const VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"];

/** Finds the document at a path without a resource; text or an object. */
export function findInformation(path: string): unknown {
  if (["/healthz", "/livez", "/readyz"].includes(path)) return "ok";
  if (path === "/version") return version;
  const groups = new Set(Object.values(resources).map(apiVersionOf));
  if (path === "/api") return { kind: "APIVersions", versions: ["v1"] };
  if (path === "/apis") return groupList([...groups]);
  const [, , groupVersion = ""] = /^\/(apis|api)\/(.+)$/.exec(path) ?? [];
  return groups.has(groupVersion) ? resourceList(groupVersion) : undefined;
}

const version = {
  major: "1",
  minor: "34",
  gitVersion: "v1.34.0",
  gitCommit: "0000000000000000000000000000000000000000",
  gitTreeState: "clean",
  buildDate: "2025-08-27T00:00:00Z",
  goVersion: "go1.24.6",
  compiler: "gc",
  platform: "linux/amd64",
};

function groupList(groupVersions: readonly string[]): unknown {
  const groups = groupVersions.filter((text) => text.includes("/")).map(
    (groupVersion) => {
      const [name, version] = groupVersion.split("/");
      const only = { groupVersion, version };
      return { name, versions: [only], preferredVersion: only };
    },
  );
  return { kind: "APIGroupList", apiVersion: "v1", groups };
}

function resourceList(groupVersion: string): unknown {
  const served = Object.values(resources).filter((resource) =>
    apiVersionOf(resource) === groupVersion
  );
  return {
    kind: "APIResourceList",
    apiVersion: "v1",
    groupVersion,
    resources: served.flatMap(describe),
  };
}

function describe(
  { name, kind, shortNames, isNamespaced, hasStatus }: Resource,
): unknown[] {
  const facts = { kind, namespaced: isNamespaced, singularName: "" };
  const status = { ...facts, name: `${name}/status`, verbs: VERBS };
  return [
    {
      ...facts,
      name,
      shortNames,
      singularName: kind.toLowerCase(),
      verbs: VERBS,
    },
    ...(hasStatus ? [status] : []),
  ];
}
