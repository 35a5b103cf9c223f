/**
 * Answers the requests of plugins.
 *
 * @module
 */

import { describeError } from "../../../cni/error.ts";
import { KubeError } from "../../../kube/kube_error.ts";
import type { ApiRequest } from "../../../kube/request.ts";
import type { OperationLog } from "../../../plugins/multus/log/operation_log.ts";
import type { EventQueue } from "./event_queue.ts";
import type { ForwardedAnswer, Forwarder } from "./forwarder.ts";
import {
  HEALTH_PATH,
  MAY_BE_REMEMBERED,
  ORIGIN,
  POD_UID,
} from "../../../plugins/multus/pod/daemon_protocol.ts";
import type { Remembered } from "../../daemon/cluster/remembered.ts";
import { findRequest, type PluginRequest } from "./requests.ts";

/**
 * Time limit of the API server, in milliseconds: slightly less than a plugin's
 * first try.
 */
const FORWARD_MS = 1400;
/** The same for an event, before it is queued: slightly less than ADD waits. */
const EVENT_MS = 300;
/** The same if a cached answer is available as a fallback. */
const IMPATIENT_MS = 700;
/**
 * Size limit of a body, in bytes.
 *
 * Source: k8s.io/apiserver `MaxRequestBodyBytes`.
 */
const MAX_BODY_BYTES = 3 * 2 ** 20;

/** The source of an answer. */
type Origin = "cache" | "api" | "queue";

/** The cached objects. */
export interface Memory {
  readonly isCurrent: boolean;
  readonly size: number;
  find(namespace: string, name: string): Remembered | undefined;
}

/** The sources of answers. */
export interface HandlerOptions {
  /** Undefined if the node's name is unknown. */
  readonly pods: Memory | undefined;
  readonly definitions: Memory;
  readonly events: Pick<EventQueue, "add" | "size">;
  readonly forwarder: Pick<Forwarder, "forward">;
  readonly log: Pick<OperationLog, "debug">;
}

/** Answers requests. */
export class Handler {
  readonly #options: HandlerOptions;

  /** Creates a handler with these sources. */
  constructor(options: HandlerOptions) {
    this.#options = options;
  }

  /** Answers a request; never throws. */
  async handle(request: Request): Promise<Response> {
    const startedAtMs = performance.now();
    const url = new URL(request.url);
    const response = await this.#answer(request, url);
    this.#options.log.debug("answered", {
      method: request.method,
      path: url.pathname,
      status: response.status,
      origin: response.headers.get(ORIGIN),
      ms: (performance.now() - startedAtMs).toFixed(1),
    });
    return response;
  }

  async #answer(request: Request, url: URL): Promise<Response> {
    if (url.pathname === HEALTH_PATH) return new Response("ok\n");
    if (url.pathname === "/readyz") return this.#describeReadiness();
    const asked = findRequest(request.method, url);
    if (asked === undefined) {
      return refuse(403, "the daemon answers what the plugin asks, only");
    }
    try {
      const apiRequest = await readRequest(request, url);
      if (asked.kind === "event") return await this.#post(apiRequest);
      return await this.#find(asked, request, apiRequest);
    } catch (error) {
      return describeFailure(error);
    }
  }

  #describeReadiness(): Response {
    const { pods, definitions } = this.#options;
    const describe = (what: string, memory: Memory): string =>
      `${what}: ${memory.isCurrent ? "watched" : "not watched"}, ` +
      `${memory.size} remembered\n`;
    const isReady = definitions.isCurrent && (pods?.isCurrent ?? true);
    const text = describe("network attachment definitions", definitions) +
      (pods ? describe("pods", pods) : "pods: no node is known\n");
    return new Response(text, { status: isReady ? 200 : 503 });
  }

  /**
   * Posts an event, so that it is safe when ADD ends. If the API server is slow
   * or failing, this event and all that follow are queued.
   */
  async #post(event: ApiRequest): Promise<Response> {
    const { events } = this.#options;
    const enqueue = (): Response => {
      events.add(event);
      return answer("queue", { status: 202, text: "{}" });
    };
    if (events.size > 0) return enqueue();
    return await this.#forward(event, EVENT_MS, enqueue);
  }

  async #find(
    asked: PluginRequest,
    { headers }: Request,
    apiRequest: ApiRequest,
  ): Promise<Response> {
    const memory = this.#memoryOf(asked);
    const remembered = memory && recall(memory, asked, headers);
    if (remembered === undefined) return await this.#forward(apiRequest);
    const fromCache = (): Response =>
      answer("cache", { status: 200, text: remembered.text });
    if (memory?.isCurrent) return fromCache();
    // Without a watch the cache may be stale: prefer the API server, if it
    // answers.
    return await this.#forward(apiRequest, IMPATIENT_MS, fromCache);
  }

  #memoryOf({ kind }: PluginRequest): Memory | undefined {
    if (kind === "pod") return this.#options.pods;
    return kind === "definition" ? this.#options.definitions : undefined;
  }

  async #forward(
    request: ApiRequest,
    timeoutMs: number = FORWARD_MS,
    instead?: () => Response,
  ): Promise<Response> {
    try {
      const { forwarder } = this.#options;
      const forwarded = await forwarder.forward(request, timeoutMs);
      if (instead && isTrouble(forwarded.status)) return instead();
      // The plugin's credentials may be valid when the daemon's are not.
      if (forwarded.status === 401) {
        return refuse(502, "the API server refuses the daemon's credentials");
      }
      return answer("api", forwarded);
    } catch (error) {
      if (instead && error instanceof KubeError) return instead();
      throw error;
    }
  }
}

/** Reports whether the same request may succeed later. */
function isTrouble(status: number): boolean {
  return status === 429 || status >= 500;
}

function recall(
  memory: Memory,
  { kind, namespace, name }: PluginRequest,
  headers: Headers,
): Remembered | undefined {
  const [header, value] = MAY_BE_REMEMBERED;
  if (headers.get(header) !== value) return undefined;
  const remembered = memory.find(namespace, name);
  if (kind !== "pod") return remembered;
  // A new pod of the same name may have replaced the cached one.
  const uid = headers.get(POD_UID) ?? "";
  return remembered?.uids.includes(uid) ? remembered : undefined;
}

async function readRequest(request: Request, url: URL): Promise<ApiRequest> {
  const { method, headers } = request;
  const head = { method, path: url.pathname + url.search };
  if (method === "GET") return head;
  const length = Number(headers.get("content-length") ?? "NaN");
  if (!(length <= MAX_BODY_BYTES)) {
    throw new RangeError(`the body has more than ${MAX_BODY_BYTES} bytes`);
  }
  const contentType = headers.get("content-type") ?? "application/json";
  return { ...head, body: await request.text(), contentType };
}

function answer(
  origin: Origin,
  { status, text, contentType, retryAfter }:
    & Pick<ForwardedAnswer, "status" | "text">
    & Partial<ForwardedAnswer>,
): Response {
  const headers = new Headers({
    [ORIGIN]: origin,
    "content-type": contentType || "application/json",
  });
  if (retryAfter) headers.set("retry-after", retryAfter);
  return new Response(text, { status, headers });
}

/** Builds a refusal, after which the plugin asks the API server itself. */
function refuse(status: number, why: string): Response {
  return new Response(`${why}\n`, { status });
}

function describeFailure(error: unknown): Response {
  const why = describeError(error);
  if (error instanceof RangeError) return refuse(413, why);
  if (!(error instanceof KubeError)) return refuse(500, why);
  return refuse(error.isTimeout ? 504 : 502, why);
}
