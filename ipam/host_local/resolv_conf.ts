/**
 * Reads resolv.conf(5).
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import type { Dns } from "../../cni/result/result.ts";
import { readTextFile } from "../../base/files/io.ts";

/**
 * Reads resolver settings from a file.
 *
 * @throws {CniError} 5 if the file cannot be read
 */
export function readResolvConf(path: string): Dns {
  try {
    return parseResolvConf(readTextFile(path));
  } catch (error) {
    throw new CniError(ErrorCode.IoFailure, `Cannot read "${path}"`, {
      cause: error,
    });
  }
}

/**
 * Parses resolver settings: the last `domain` wins, everything else adds up.
 *
 * Source: containernetworking/plugins plugins/ipam/host-local/dns.go
 * `parseResolvConf`.
 */
export function parseResolvConf(text: string): Dns {
  const nameservers: string[] = [], search: string[] = [];
  const options: string[] = [];
  let domain = "";
  for (const line of text.split("\n")) {
    const [keyword = "", first, ...others] = line.trim().split(/\s+/);
    if (first === undefined) continue;
    // The start of a comment, such as `#` or `;search`, matches none of these.
    if (keyword === "nameserver") nameservers.push(first);
    if (keyword === "domain") domain = first;
    if (keyword === "search") search.push(first, ...others);
    if (keyword === "options") options.push(first, ...others);
  }
  return { nameservers, domain, search, options };
}
