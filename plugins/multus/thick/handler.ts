/**
 * Thick multus's protocol: HTTP requests of `multus-shim` and of hot-plug
 * controllers to responses.
 *
 * Source: multus-cni pkg/server/server.go.
 *
 * @module
 */

import type { Environment } from "../../../base/process/environment.ts";
import { describeError } from "../../../base/error.ts";
import type { DispatchOutput } from "../../../cni/call/surroundings.ts";
import { isObject, type JsonObject } from "../../../base/json/json.ts";
import { decodeResult } from "../../../cni/result/decoding.ts";
import { encodeResult } from "../../../cni/result/encoding.ts";
import { concat } from "../../../net/bytes.ts";
import type { HotPlug } from "../hot_plug.ts";
import {
  configOfHotPlug,
  overlayConfig,
  RESULT_VERSION,
} from "./configuration.ts";
import { type Endpoint, readRequest, RequestError } from "./request.ts";

/** A call of multus. */
export interface ThickCall {
  /** The daemon's environment with the call's CNI_* variables. */
  readonly env: Environment;
  /** The configuration of multus. */
  readonly stdin: Uint8Array;
  /** The network of a call about only one of a pod's networks. */
  readonly hotPlug?: HotPlug;
  /** The caller's executable, if it is of this build. */
  readonly exe?: string;
}

/** The daemon's part of the work. */
export interface ThickOptions {
  /** Runs a call, in its turn. */
  readonly run: (
    call: ThickCall,
  ) => Promise<Pick<DispatchOutput, "stdout" | "exitCode">>;
  /** The daemon's own configuration, laid over that of every call. */
  readonly overlay: JsonObject;
  /** The daemon's environment. */
  readonly env: Environment;
  /** Whether calls must name their pod, as multus'; true by default. */
  readonly needsPod?: boolean;
  /** Reports whether the daemon is about to end. */
  readonly isEnding: () => boolean;
}

/** Longest body, in bytes: a configuration, four thirds as long in base64. */
const MAX_BODY = 16 * 1024 * 1024;

/** Where plugins are if the request does not say; those of `binDir` come first. */
export const CNI_PATH = "/opt/cni/bin";

/** Answers the protocol's requests. */
export class ThickHandler {
  readonly #options: ThickOptions;

  /** Creates a handler. */
  constructor(options: ThickOptions) {
    this.#options = options;
  }

  /**
   * Answers a request; never throws.
   *
   * @returns Undefined if the path is not the protocol's
   */
  handle(request: Request): Promise<Response> | undefined {
    const { pathname } = new URL(request.url);
    switch (pathname) {
      case "/cni":
      case "/delegate":
        return this.#call(pathname, request);
      case "/healthz":
        return this.#state(request, true);
      case "/readyz":
        return this.#state(request, !this.#options.isEnding());
      default:
        return undefined;
    }
  }

  async #state({ method, body }: Request, isGood: boolean): Promise<Response> {
    await body?.cancel();
    return ["GET", "POST"].includes(method)
      ? new Response(null, { status: isGood ? 200 : 500 })
      : refuseMethod();
  }

  async #call(endpoint: Endpoint, request: Request): Promise<Response> {
    if (request.method !== "POST") return refuseMethod();
    try {
      const call = this.#readCall(endpoint, await readBody(request));
      const output = await this.#options.run(call);
      if (output.exitCode !== 0) return answerError(output.stdout);
      return answerResult(output.stdout);
    } catch (error) {
      const isSenders = error instanceof RequestError;
      return text(isSenders ? 400 : 500, describeError(error));
    }
  }

  #readCall(endpoint: Endpoint, body: string): Omit<ThickCall, "signal"> {
    const { overlay, env: own, needsPod } = this.#options;
    const request = readRequest(endpoint, body, needsPod);
    const { env: sent, config, attributes, exe } = request;
    const caller = exe === undefined ? {} : { exe };
    const env = { CNI_PATH, ...own, ...sent };
    return endpoint === "/cni"
      ? { ...caller, env, stdin: overlayConfig(config, overlay) }
      : {
        ...caller,
        env,
        stdin: configOfHotPlug(overlay),
        hotPlug: { config, request: attributes },
      };
  }
}

/** @throws {RequestError} If it is too long, or is not UTF-8 */
async function readBody(request: Request): Promise<string> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  for await (const chunk of request.body ?? []) {
    length += chunk.length;
    if (length > MAX_BODY) {
      throw new RequestError(`the body is longer than ${MAX_BODY} bytes`);
    }
    chunks.push(chunk);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(concat(chunks));
  } catch {
    throw new RequestError("the body is not UTF-8");
  }
}

/**
 * Answers with a result in the newest version; callers convert it. Without a
 * result the body is empty.
 */
function answerResult(stdout: string): Response {
  if (stdout === "") return new Response(null, { status: 200 });
  const result = decodeResult(JSON.parse(stdout));
  const document = encodeResult(result, RESULT_VERSION);
  return json(200, { Result: document });
}

/** Answers with the plugin's error document, in Go's order of keys. */
function answerError(stdout: string): Response {
  return json(400, describeFailure(stdout));
}

/** Describes the error that a plugin has printed. */
export function describeFailure(stdout: string): JsonObject {
  const document: unknown = JSON.parse(stdout);
  if (!isObject(document)) throw new Error(`not an error: ${stdout}`);
  const { code, msg, details } = document as JsonObject;
  return {
    code: code ?? 999,
    msg: msg ?? "",
    ...details !== undefined && { details },
  };
}

/** Characters that Go's JSON encoder escapes. */
const ESCAPED = /[<>&\u2028\u2029]/g;

function json(status: number, document: JsonObject): Response {
  const body = JSON.stringify(document).replace(
    ESCAPED,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  const headers = { "content-type": "application/json" };
  return new Response(body, { status, headers });
}

function refuseMethod(): Response {
  return text(405, "Method not allowed");
}

/** As Go's http.Error. */
function text(status: number, message: string): Response {
  const headers = {
    "content-type": "text/plain; charset=utf-8",
    "x-content-type-options": "nosniff",
  };
  return new Response(`${message}\n`, { status, headers });
}
