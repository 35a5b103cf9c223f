/**
 * Comments of tables, chains, rules and elements, as `nft` stores and shows
 * them.
 *
 * @module
 */

import { type Bytes, type Codec, concat } from "../../net/bytes.ts";

/** Source: libnftnl include/udata.h `NFTNL_UDATA_RULE_COMMENT` and similar. */
const COMMENT = 0;
/** Far above the numbers of `nft`, which skips unknown parts. */
const LABEL = 0x7f;
/** A type and a length, a byte each. */
const HEADER_BYTES = 2;

/** Longest user data of an element in bytes. Source: `NFT_USERDATA_MAXLEN`. */
export const USER_DATA_MAX_BYTES = 256;

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
  decode: (bytes) => textOf(bytes, COMMENT),
};

/** The user data of a set's element. */
export interface ElementTexts {
  /** Shown by `nft`; "" for none. */
  readonly comment: string;
  /** For programs, not shown by `nft`; "" for none. */
  readonly label: string;
}

/** Codec of a comment and a label. */
export const elementTexts: Codec<ElementTexts> = {
  encode(texts): Bytes {
    const label = new TextEncoder().encode(texts.label);
    const bytes = concat([
      texts.comment === "" ? new Uint8Array(0) : comment.encode(texts.comment),
      label.length === 0
        ? label
        : new Uint8Array([LABEL, label.length, ...label]),
    ]);
    if (bytes.length <= USER_DATA_MAX_BYTES) return bytes;
    throw new RangeError(
      `Cannot encode user data of ${bytes.length} bytes: expected at most ${USER_DATA_MAX_BYTES}`,
    );
  },
  decode: (bytes) => ({
    comment: textOf(bytes, COMMENT),
    label: textOf(bytes, LABEL),
  }),
};

function textOf(bytes: Bytes, wanted: number): string {
  for (let start = 0; start + HEADER_BYTES <= bytes.length;) {
    const [type, length = 0] = bytes.subarray(start);
    const value = bytes.subarray(start + HEADER_BYTES).subarray(0, length);
    if (type === wanted) {
      return new TextDecoder().decode(value).replace(/\0.*$/s, "");
    }
    start += HEADER_BYTES + length;
  }
  return "";
}
