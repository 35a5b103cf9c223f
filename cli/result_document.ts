/**
 * Results as printed.
 *
 * @module
 */

import type { JsonObject } from "../cni/json.ts";
import type { AttachmentResult } from "../cni/libcni/mod.ts";
import { encodeResult } from "../cni/result_encoding.ts";

/**
 * Returns a result in its own version, with its keys in cnitool's order;
 * unchanged if it cannot be decoded.
 */
export function arrangeResult(
  { document, result }: AttachmentResult,
): JsonObject {
  try {
    return encodeResult(result, String(document["cniVersion"]));
  } catch {
    return document;
  }
}
