/**
 * Comments of tables, chains, rules and elements, as `nft` stores and shows
 * them.
 *
 * @module
 */

import type { Bytes, Codec } from "../../net/bytes.ts";

/** Source: libnftnl include/udata.h `NFTNL_UDATA_RULE_COMMENT` and similar. */
const COMMENT = 0;
/** A type and a length of one byte each. */
const HEADER_BYTES = 2;

/** Longest comment in bytes. Source: nftables include/nftables.h `NFTNL_UDATA_COMMENT_MAXLEN`. */
export const COMMENT_MAX_BYTES = 128;

/**
 * Codec of the comment in user data; "" means none. Other parts are dropped.
 *
 * User data is a run of parts, each with its type and length. The kernel does
 * not interpret it.
 */
export const comment: Codec<string> = {
  encode(text): Bytes {
    const bytes = new TextEncoder().encode(text + "\0");
    if (bytes.length > COMMENT_MAX_BYTES) {
      throw new RangeError(
        `Cannot encode a comment of ${
          bytes.length - 1
        } bytes: expected at most ${COMMENT_MAX_BYTES - 1}`,
      );
    }
    return new Uint8Array([COMMENT, bytes.length, ...bytes]);
  },
  decode(bytes): string {
    for (let start = 0; start + HEADER_BYTES <= bytes.length;) {
      const [type, length = 0] = bytes.subarray(start);
      const value = bytes.subarray(start + HEADER_BYTES).subarray(0, length);
      if (type === COMMENT) {
        return new TextDecoder().decode(value).replace(/\0.*$/s, "");
      }
      start += HEADER_BYTES + length;
    }
    return "";
  },
};
