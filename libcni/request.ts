/**
 * The input of a plugin: its own configuration, and what the runtime adds.
 *
 * Source: containernetworking/cni libcni/conf.go `InjectConf`, libcni/api.go
 * `buildOneConfig`, `injectRuntimeConfig` and `GCNetworkList`.
 *
 * @module
 */

import { CniError, ErrorCode } from "../base/error.ts";
import {
  foldKey,
  type JsonObject,
  type JsonValue,
  omitAbsent,
} from "../base/json/json.ts";
import type { ValidAttachment } from "../cni/config/types.ts";
import {
  decodePluginConf,
  type NetworkConfList,
  type PluginConf,
} from "./conf.ts";
import { encodeJson } from "../base/json/json_bytes.ts";

/** The parts of a request apart from the network's name and version. */
export interface RequestExtras {
  /** The previous plugin's or the whole chain's result, in its own version. */
  readonly prevResult?: JsonObject | undefined;
  /** Capability arguments, by capability; for ADD, CHECK and DEL. */
  readonly capabilityArgs?: JsonObject | undefined;
  /** The valid attachments for GC; undefined if unknown. */
  readonly gc?:
    | { readonly validAttachments: readonly ValidAttachment[] }
    | undefined;
}

/**
 * Sets keys of a plugin's configuration. Removes other spellings of them, which
 * a plugin might read instead.
 *
 * @throws {CniError} 7 If a key is empty, a value is null, or the result is not
 *   a plugin's configuration
 */
export function injectConf(
  document: JsonObject,
  keys: Readonly<Record<string, JsonValue>>,
): JsonObject {
  for (const [key, value] of Object.entries(keys)) checkInjected(key, value);
  return decodePluginConf(setKeys(document, keys)).document;
}

/** Sets keys of an object, and removes other spellings of them. */
export function setKeys(
  document: JsonObject,
  keys: Readonly<Record<string, JsonValue>>,
): JsonObject {
  const set = new Set(Object.keys(keys).map(foldKey));
  const kept = Object.entries(document)
    .filter(([key]) => !set.has(foldKey(key)));
  return Object.fromEntries([...kept, ...Object.entries(keys)]);
}

function checkInjected(key: string, value: JsonValue): void {
  const refuse = (problem: string): CniError =>
    new CniError(ErrorCode.InvalidNetworkConfig, problem);
  if (key === "") throw refuse("keys cannot be empty");
  if (value === null) throw refuse(`key '${key}' value must not be nil`);
}

/**
 * Builds the configuration that a plugin reads from stdin.
 *
 * Passes on keys from the file that the runtime does not set, including
 * `prevResult` and `runtimeConfig`.
 *
 * @param list The network; its name and version go to every plugin
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
    // The key that libcni 1.2 and the plugins of its time use.
    "cni.dev/attachments": attachments,
  });
  // The plugin's own keys have been decoded; these keys cannot make them
  // invalid.
  return encodeJson(setKeys(plugin.document, keys));
}

/** Picks the capability arguments that the plugin declares; undefined if none. */
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
