/**
 * What a plugin of a network is sent: its own configuration, and what the
 * runtime adds to it.
 *
 * Source: containernetworking/cni libcni/conf.go `InjectConf`, libcni/api.go
 * `buildOneConfig`, `injectRuntimeConfig` and `GCNetworkList`.
 *
 * @module
 */

import { CniError, ErrorCode } from "../error.ts";
import { type JsonObject, type JsonValue, omitAbsent } from "../json.ts";
import type { ValidAttachment } from "../types.ts";
import {
  decodePluginConf,
  type NetworkConfList,
  type PluginConf,
} from "./conf.ts";
import { encodeJson } from "./json_bytes.ts";

/** What a request has besides the network's name and version. */
export interface RequestExtras {
  /** The result of the plugin before, or of the whole chain, in its version. */
  readonly prevResult?: JsonObject | undefined;
  /** What the runtime offers, by capability; for ADD, CHECK and DEL. */
  readonly capabilityArgs?: JsonObject | undefined;
  /** For GC; absent if the runtime does not say which attachments are valid. */
  readonly gc?:
    | { readonly validAttachments: readonly ValidAttachment[] }
    | undefined;
}

/**
 * Sets keys of a plugin's configuration. Other spellings of them, which a
 * plugin might take for them, are dropped.
 *
 * @throws {CniError} 7 If a key is empty, a value null, or what comes of it no
 *   plugin's configuration
 */
export function injectConf(
  document: JsonObject,
  keys: Readonly<Record<string, JsonValue>>,
): JsonObject {
  for (const [key, value] of Object.entries(keys)) checkInjected(key, value);
  return decodePluginConf(setKeys(document, keys)).document;
}

function setKeys(
  document: JsonObject,
  keys: Readonly<Record<string, JsonValue>>,
): JsonObject {
  const set = new Set(Object.keys(keys).map((key) => key.toLowerCase()));
  const kept = Object.entries(document)
    .filter(([key]) => !set.has(key.toLowerCase()));
  return Object.fromEntries([...kept, ...Object.entries(keys)]);
}

function checkInjected(key: string, value: JsonValue): void {
  const refuse = (problem: string): CniError =>
    new CniError(ErrorCode.InvalidNetworkConfig, problem);
  if (key === "") throw refuse("keys cannot be empty");
  if (value === null) throw refuse(`key '${key}' value must not be nil`);
}

/**
 * Builds what a plugin reads from stdin.
 *
 * Keys that the file has and the runtime does not set, `prevResult` and
 * `runtimeConfig` among them, are passed on.
 *
 * @param list The network, whose name and version all its plugins are given
 * @throws {CniError} 7 If it cannot be encoded
 */
export function buildRequest(
  list: Pick<NetworkConfList, "name" | "cniVersion">,
  plugin: PluginConf,
  { prevResult, capabilityArgs = {}, gc }: RequestExtras = {},
): Uint8Array<ArrayBuffer> {
  const attachments = gc?.validAttachments.map(formatAttachment);
  const keys = omitAbsent<Record<string, JsonValue>>({
    name: list.name,
    cniVersion: list.cniVersion,
    prevResult,
    runtimeConfig: pickRuntimeConfig(plugin, capabilityArgs),
    "cni.dev/valid-attachments": attachments,
    // The name that libcni 1.2 and the plugins of its time have for it.
    "cni.dev/attachments": attachments,
  });
  // What the plugin has was decoded, and these keys are none that it could break.
  return encodeJson(setKeys(plugin.document, keys));
}

/** Picks what the plugin wants of what the runtime offers; undefined for nothing. */
function pickRuntimeConfig(
  { capabilities }: PluginConf,
  capabilityArgs: JsonObject,
): JsonObject | undefined {
  const picked = Object.entries(capabilityArgs)
    .filter(([capability]) =>
      Object.hasOwn(capabilities, capability) && capabilities[capability]
    );
  return picked.length === 0 ? undefined : Object.fromEntries(picked);
}

function formatAttachment(
  { containerId, ifName }: ValidAttachment,
): JsonObject {
  return { containerID: containerId, ifname: ifName };
}
