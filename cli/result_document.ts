/**
 * Results as they are shown.
 *
 * @module
 */

import type { JsonObject } from "../cni/json.ts";
import type { AttachmentResult } from "../cni/libcni/mod.ts";
import { encodeResult } from "../cni/result_encoding.ts";

/**
 * Returns a result in its own version, with its keys in the order in which
 * cnitool prints them; as it is if that cannot be.
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
