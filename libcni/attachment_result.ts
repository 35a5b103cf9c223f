/**
 * Results of ADD: as the plugin printed them, and as values.
 *
 * @module
 */

import { describeError } from "../base/error.ts";
import type { JsonObject } from "../base/json/json.ts";
import type { Log } from "../base/log/log.ts";
import type { Result } from "../cni/result/result.ts";
import { decodeResult } from "../cni/result/decoding.ts";
import { encodeResult } from "../cni/result/encoding.ts";
import { haveSameShape } from "../cni/result/versions.ts";
import type { AttachmentCache } from "./cache.ts";
import { keyOf, type RuntimeConf } from "./runtime_conf.ts";

/** A result in its own version, and decoded. */
export interface AttachmentResult {
  /** The plugin's output, with `cniVersion` and unknown keys. */
  readonly document: JsonObject;
  /** The decoded result. */
  readonly result: Result;
}

/**
 * Returns a result for the next plugin of a list. If the plugin printed the
 * shape of another version than requested, the result is converted to the
 * list's version. The Go library passes such a result on, and the next plugin
 * fails.
 */
export function toPrevResult(
  { document, result }: AttachmentResult,
  cniVersion: string,
  log: Log,
): JsonObject {
  const from = String(document["cniVersion"]);
  if (haveSameShape(from, cniVersion)) return document;
  const versions = { from, to: cniVersion };
  try {
    const converted = encodeResult(result, cniVersion);
    log.info("Converted a result for the next plugin", versions);
    return converted;
  } catch (cause) {
    const error = describeError(cause);
    log.warn("Cannot convert a result for the next plugin", {
      ...versions,
      error,
    });
    return document;
  }
}

/**
 * Finds the cached result of an attachment, in the version of the network's
 * configuration, which may have changed since.
 *
 * Source: containernetworking/cni libcni/api.go `getCachedResult`.
 *
 * @returns Undefined if none is cached
 * @throws {CniError} 1 or 6 If it is not a result, or cannot be converted to
 *   that version
 */
export function findCachedResult(
  cache: AttachmentCache,
  network: { readonly name: string; readonly cniVersion: string },
  conf: RuntimeConf,
): AttachmentResult | undefined {
  const document = cache.readResult(keyOf(network, conf));
  if (document === undefined) return undefined;
  const result = decodeResult(document);
  const { cniVersion } = network;
  if (document["cniVersion"] === cniVersion) return { document, result };
  try {
    return { document: encodeResult(result, cniVersion), result };
  } catch (cause) {
    const version = JSON.stringify(cniVersion);
    throw new Error(
      `failed to convert cached result to config version ${version}`,
      { cause },
    );
  }
}
