/**
 * The configurations that multus gets in a call over thick multus's protocol.
 *
 * @module
 */

import { describeError } from "../../../base/error.ts";
import {
  isObject,
  type JsonObject,
  parseJson,
} from "../../../base/json/json.ts";
import { RequestError } from "./request.ts";

/** The newest version, which the protocol's results have. */
export const RESULT_VERSION = "1.1.0";

/**
 * Lays the daemon's own configuration over a call's, key by key.
 *
 * Source: multus-cni pkg/server/server.go `overrideCNIConfigWithServerConfig`.
 *
 * @param config The call's configuration
 * @param overlay The daemon's; an empty one leaves the bytes unchanged
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
 * Builds the configuration of multus for a call about one network, from the
 * daemon's own. The network's configuration stays as it was sent; the Go version
 * lays the daemon's over it too, with its cniVersion.
 */
export function configOfHotPlug(overlay: JsonObject): Uint8Array {
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
