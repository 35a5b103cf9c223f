/**
 * Thick multus' protocol: HTTP requests of `multus-shim` and of hot-plug controllers,
 * as calls of multus.
 *
 * Source: multus-cni pkg/server/server.go, pkg/server/api/types.go `Request`.
 *
 * @module
 */

import type { Environment } from "../../../base/process/environment.ts";
import { describeError } from "../../../base/error.ts";
import {
  isObject,
  type JsonObject,
  type JsonValue,
  parseJson,
} from "../../../base/json/json.ts";
import type { DispatchOutput } from "../../../cni/call/context.ts";
import {
  answerCall,
  checkEnv,
  CNI_PATH,
  type HttpCall,
  readCall,
  RequestError,
  RESULT_VERSION,
  type RunBody,
} from "../../../daemon/server/http_calls.ts";
import type { HotPlug } from "../operations/hot_plug.ts";

/** A call of multus. */
export interface ThickCall {
  /** The daemon's environment with the call's CNI_* variables. */
  readonly env: Environment;
  /** The configuration of multus. */
  readonly stdin: Uint8Array;
  /** The network of a call that concerns only a single network of a pod. */
  readonly hotPlug?: HotPlug;
  /** The caller's executable, if it is the same build. */
  readonly exe?: string;
}

/** The daemon's functions and configuration. */
export interface ThickOptions {
  /** Runs a call when its turn comes. */
  readonly run: (
    call: ThickCall,
  ) => Promise<Pick<DispatchOutput, "stdout" | "exitCode">>;
  /**
   * The daemon's own configuration, which overrides keys of every call's
   * configuration.
   */
  readonly overlay: JsonObject;
  /** The daemon's environment; its plugin directories are searched after `binDir`. */
  readonly env: Environment;
  /** Reports whether the daemon is shutting down. */
  readonly isEnding: () => boolean;
}

/**
 * Answers a request; never throws.
 *
 * @returns Undefined if the path does not belong to the protocol
 */
export function answerThick(
  request: Request,
  { run, overlay, env: own, isEnding }: ThickOptions,
): Promise<Response> | undefined {
  const runOn = (endpoint: Endpoint): RunBody => (body) => {
    const { config, attributes, env, ...call } = readThickRequest(
      endpoint,
      body,
    );
    const scene = { ...call, env: { CNI_PATH, ...own, ...env } };
    if (endpoint === "/cni") {
      return run({ ...scene, stdin: overlayConfig(config, overlay) });
    }
    const hotPlug = { config, request: attributes };
    return run({ ...scene, stdin: configOfHotPlug(overlay), hotPlug });
  };
  const paths = { "/cni": runOn("/cni"), "/delegate": runOn("/delegate") };
  return answerCall(request, paths, isEnding);
}

/** The endpoints that run a call. */
export type Endpoint = "/cni" | "/delegate";

/** A request. */
export interface ThickRequest extends HttpCall {
  /** The attributes that a hot-plug controller requests for the interface. */
  readonly attributes: HotPlug["request"];
}

/**
 * Reads the body of a request.
 *
 * @throws {RequestError} With the Go version's text
 */
export function readThickRequest(
  endpoint: Endpoint,
  body: string,
): ThickRequest {
  const [call, others] = readCall(body, (sent) => checkPodEnv(endpoint, sent));
  const { interfaceAttributes } = others;
  return { ...call, attributes: readAttributes(interfaceAttributes) };
}

/**
 * Checks the environment of a call, which names its pod.
 *
 * @returns The variables that the protocol contains
 * @throws {RequestError} See {@linkcode readThickRequest}
 */
export function checkPodEnv(
  endpoint: Endpoint,
  sent: Environment,
): Environment {
  const isPods = endpoint === "/delegate";
  const env = checkEnv(sent, isPods ? ["STATUS", "GC"] : undefined);
  const isAny = ["DEL", "STATUS", "GC"].includes(sent["CNI_COMMAND"] ?? "");
  if (isPods || !isAny) requirePod(sent["CNI_ARGS"]);
  return env;
}

/** Source: multus-cni pkg/server/server.go `kubernetesRuntimeArgs`. */
function requirePod(args: string | undefined): void {
  const failure = "could not extract the kubernetes runtime args: ";
  if (args === undefined) throw new RequestError(`${failure}missing CNI_ARGS`);
  const pairs = args.split(";").map((pair) => {
    const parts = pair.split("=");
    if (parts.length !== 2) {
      throw new RequestError(`${failure}invalid CNI_ARG '${pair}'`);
    }
    return parts.map((part) => part.trim());
  });
  const pod = new Map(pairs as [string, string][]);
  const [namespace, name] = ["K8S_POD_NAMESPACE", "K8S_POD_NAME"].map((key) => {
    const value = pod.get(key);
    if (value === undefined) {
      throw new RequestError(`${failure}missing ${key}`);
    }
    return value;
  });
  if (namespace && name) return;
  throw new RequestError(
    "required CNI variable missing. " +
      `pod name: ${name}; pod namespace: ${namespace}`,
  );
}

function readAttributes(
  value: JsonValue | undefined,
): ThickRequest["attributes"] {
  if (value === undefined || value === null) return {};
  if (!isObject(value)) {
    throw new RequestError(`"interfaceAttributes" is not an object`);
  }
  const { ips, mac, "cni-args": cniArgs } = value;
  return {
    ...isGiven(ips) && { ips: readTexts(ips) },
    ...isGiven(mac) && mac !== "" && { mac: readText(mac) },
    ...isGiven(cniArgs) && { cniArgs: readArgs(cniArgs) },
  };
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

function readText(value: unknown): string {
  if (typeof value === "string") return value;
  throw new RequestError(`"mac" is not a string`);
}

function readTexts(value: unknown): string[] {
  const isText = (item: unknown): item is string => typeof item === "string";
  if (Array.isArray(value) && value.every(isText)) return value;
  throw new RequestError(`"ips" is not an array of strings`);
}

function readArgs(value: unknown): JsonObject {
  if (isObject(value)) return value as JsonObject;
  throw new RequestError(`"cni-args" is not an object`);
}

/**
 * Merges the daemon's own configuration into a call's configuration, key by key.
 *
 * Source: multus-cni pkg/server/server.go `overrideCNIConfigWithServerConfig`.
 *
 * @param config The call's configuration
 * @param overlay The daemon's configuration; if it is empty, the bytes are unchanged
 * @throws {RequestError} If the configuration is not a JSON object
 */
export function overlayConfig(
  config: Uint8Array,
  overlay: JsonObject,
): Uint8Array {
  if (Object.keys(overlay).length === 0) return config;
  return encode(layOver(parseConfig(config), overlay));
}

/** Keys are case-insensitive. */
function layOver(base: JsonObject, overlay: JsonObject): JsonObject {
  const replaced = new Set(
    Object.keys(overlay).map((key) => key.toLowerCase()),
  );
  const kept = Object.entries(base)
    .filter(([key]) => !replaced.has(key.toLowerCase()));
  return { ...Object.fromEntries(kept), ...overlay };
}

/**
 * Builds the configuration of multus for a call that concerns a single network, from
 * the daemon's own configuration. The network's configuration is not changed; in Go
 * multus, the daemon's configuration also overrides it, including its cniVersion.
 */
function configOfHotPlug(overlay: JsonObject): Uint8Array {
  return encode(layOver(overlay, {
    cniVersion: RESULT_VERSION,
    name: "multus",
    type: "multus",
    // Networks of every pod, which this call does not attach.
    clusterNetwork: "",
    delegates: [],
  }));
}

function parseConfig(config: Uint8Array): JsonObject {
  const failure = "failed to unmarshall CNI config";
  let value: unknown;
  try {
    value = parseJson(config, "it");
  } catch (error) {
    throw new RequestError(`${failure}: ${describeError(error)}`);
  }
  if (isObject(value)) return value as JsonObject;
  throw new RequestError(`${failure}: it is not a JSON object`);
}

function encode(document: JsonObject): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(document));
}
