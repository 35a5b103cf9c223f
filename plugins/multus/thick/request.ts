/**
 * The requests of thick multus's protocol: the environment and the configuration
 * of a call, as `multus-shim` sends them.
 *
 * Source: multus-cni pkg/server/api/types.go `Request`, pkg/server/server.go
 * `extractCniData`, `kubernetesRuntimeArgs`.
 *
 * @module
 */

import type { Environment } from "../../../base/process/environment.ts";
import { buildIdentity } from "../../../base/process/build_identity.ts";
import { describeError } from "../../../base/error.ts";
import {
  isObject,
  type JsonObject,
  type JsonValue,
  parseJson,
} from "../../../base/json/json.ts";
import type { HotPlug } from "../hot_plug.ts";

/** A request that is not a call; the answer is its text. */
export class RequestError extends Error {
  /** Names the class in texts. */
  override readonly name = "RequestError";
}

/** The endpoints that run a call. */
export type Endpoint = "/cni" | "/delegate";

/** The attributes that a hot-plug controller requests for an interface. */
export type InterfaceAttributes = HotPlug["request"];

/** A call. */
export interface CallRequest {
  readonly command: string;
  /** The CNI_* variables that the protocol passes on. */
  readonly env: Environment;
  /** The configuration, byte for byte. */
  readonly config: Uint8Array;
  readonly attributes: InterfaceAttributes;
  /** The caller's executable, if it is of this build. */
  readonly exe?: string;
}

const CALL = "could not extract the CNI command args: ";
const POD = "could not extract the kubernetes runtime args: ";

/** Commands without a container. */
const NODE_COMMANDS: readonly string[] = ["STATUS", "GC"];

/**
 * Reads the body of a request.
 *
 * DEL needs no pod and no namespace, as the specification says. The Go version
 * refuses such a DEL, and what ADD made stays.
 *
 * @param needsPod Whether a call must name its pod
 * @throws {RequestError} With the Go version's text
 */
export function readRequest(
  endpoint: Endpoint,
  body: string,
  needsPod = true,
): CallRequest {
  const document = parseBody(body);
  const sent = readEnv(document["env"]);
  const env = checkEnv(endpoint, sent, needsPod);
  const { build, exe } = document;
  return {
    command: sent["CNI_COMMAND"] ?? "",
    ...build === buildIdentity && typeof exe === "string" && { exe },
    env,
    config: readConfig(document["config"]),
    attributes: readAttributes(document["interfaceAttributes"]),
  };
}

/**
 * Checks the environment of a call.
 *
 * @returns The variables that the protocol passes on
 * @throws {RequestError} As {@linkcode readRequest}
 */
export function checkEnv(
  endpoint: Endpoint,
  sent: Environment,
  needsPod = true,
): Environment {
  const command = sent["CNI_COMMAND"];
  if (command === undefined) {
    throw new RequestError(`${CALL}unexpected or missing CNI_COMMAND`);
  }
  const isPods = !NODE_COMMANDS.includes(command);
  const isLenient = endpoint === "/cni" && command === "DEL";
  if (isPods && !isLenient) requireVariables(sent);
  if (needsPod && (isPods || endpoint === "/delegate") && !isLenient) {
    requirePod(sent["CNI_ARGS"]);
  }
  return pickEnv(sent);
}

function parseBody(body: string): JsonObject {
  let value: unknown;
  try {
    value = parseJson(body, "the body");
  } catch (error) {
    throw new RequestError(describeError(error));
  }
  if (isObject(value)) return value as JsonObject;
  throw new RequestError("the body is not a JSON object");
}

function readEnv(value: JsonValue | undefined): Environment {
  if (value === undefined || value === null) return {};
  if (isObject(value)) {
    const isText = (item: unknown): boolean => typeof item === "string";
    if (Object.values(value).every(isText)) return value as Environment;
  }
  throw new RequestError(`"env" is not an object of strings`);
}

function requireVariables(env: Environment): void {
  for (const name of ["CNI_CONTAINERID", "CNI_NETNS", "CNI_ARGS"]) {
    if (env[name] === undefined) {
      throw new RequestError(`${CALL}missing ${name}`);
    }
  }
}

function requirePod(args: string | undefined): void {
  if (args === undefined) throw new RequestError(`${POD}missing CNI_ARGS`);
  const pairs = args.split(";").map((pair) => {
    const parts = pair.split("=");
    if (parts.length !== 2) {
      throw new RequestError(`${POD}invalid CNI_ARG '${pair}'`);
    }
    return parts.map((part) => part.trim());
  });
  const pod = new Map(pairs as [string, string][]);
  const [namespace, name] = ["K8S_POD_NAMESPACE", "K8S_POD_NAME"].map((key) => {
    const value = pod.get(key);
    if (value === undefined) throw new RequestError(`${POD}missing ${key}`);
    return value;
  });
  if (namespace && name) return;
  throw new RequestError(
    "required CNI variable missing. " +
      `pod name: ${name}; pod namespace: ${namespace}`,
  );
}

/** The default of the Go version, for hot-plug controllers. */
const IF_NAME = "eth0";

/**
 * Picks the variables of the call. The others are the caller's own, such as its
 * PATH: delegates get the daemon's.
 */
function pickEnv(sent: Environment): Environment {
  const names = [
    "CNI_COMMAND",
    "CNI_CONTAINERID",
    "CNI_NETNS",
    "CNI_ARGS",
    "CNI_PATH",
  ];
  const picked = names.flatMap((name): [string, string][] => {
    const value = sent[name];
    return value === undefined ? [] : [[name, value]];
  });
  const ifName = sent["CNI_IFNAME"] ?? IF_NAME;
  return Object.fromEntries([...picked, ["CNI_IFNAME", ifName]]);
}

/** Go's []byte: base64. */
function readConfig(value: JsonValue | undefined): Uint8Array {
  if (value === undefined || value === null) return new Uint8Array();
  try {
    if (typeof value === "string") return Uint8Array.fromBase64(value);
  } catch {
    // Refused below.
  }
  throw new RequestError(`"config" is not base64`);
}

function readAttributes(value: JsonValue | undefined): InterfaceAttributes {
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
