/**
 * Domain names in messages from the network.
 *
 * @module
 */

import type { Bytes } from "./bytes.ts";

/** Longest name and longest label, in bytes. Source: RFC 1035, section 2.3.4. */
const NAME_BYTES = 253, LABEL_BYTES = 63;

/**
 * Reports whether a text can be in resolv.conf(5) as the name of a domain. A
 * text from the network could also contain a line break and further lines.
 */
export function isDomainName(text: string): boolean {
  return text.length <= NAME_BYTES &&
    text.replace(/\.$/, "").split(".").every((label) =>
      label.length <= LABEL_BYTES && /^[\w-]+$/.test(label)
    );
}

/**
 * Decodes uncompressed names, and skips padding zeros. Stops at the first malformed
 * name.
 *
 * Source: RFC 8106, section 5.2; RFC 8415, section 10.
 */
export function decodeDomainNames(bytes: Bytes): string[] {
  const names: string[] = [];
  let labels: string[] = [];
  for (let at = 0; at < bytes.length;) {
    const length = bytes[at++] ?? 0;
    if (length > 0) {
      if (length > LABEL_BYTES || at + length > bytes.length) return names;
      labels.push(new TextDecoder().decode(bytes.subarray(at, at += length)));
      continue;
    }
    const name = labels.join(".");
    if (name !== "" && !isDomainName(name)) return names;
    if (name !== "") names.push(name);
    labels = [];
  }
  return names;
}
