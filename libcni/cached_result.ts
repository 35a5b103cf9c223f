/**
 * The result of ADD in a cached attachment.
 *
 * @module
 */

import { ifPossible } from "../base/files/io.ts";
import { decodeResult } from "../cni/result/decoding.ts";
import type { Result } from "../cni/result/result.ts";
import type { CachedAttachment } from "./cache.ts";

/**
 * Returns the result of ADD, an empty one if the plugins returned none; undefined if it
 * cannot be decoded.
 */
export function resultOf(
  { result }: Pick<CachedAttachment, "result">,
): Result | undefined {
  return ifPossible(() => decodeResult(result ?? {}));
}

/**
 * Returns the namespace of an attachment, "" if it is unknown. libcni before 1.2 cached
 * it only in the result.
 */
export function netnsOf(attachment: CachedAttachment): string {
  return attachment.netns || sandboxOf(attachment);
}

/** Returns the namespace of the attachment's interface in the result; "" without one. */
export function sandboxOf(
  attachment: Pick<CachedAttachment, "result" | "ifName">,
): string {
  return resultOf(attachment)?.interfaces
    .find(({ name, sandbox }) => sandbox && name === attachment.ifName)
    ?.sandbox ?? "";
}
