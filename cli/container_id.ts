/**
 * Container IDs for namespaces without a runtime.
 *
 * @module
 */

import { sha512 } from "../cni/sha512.ts";

/** Number of hexadecimal digits of the hash in an ID: ten bytes. */
const ID_DIGITS = 20;

/**
 * Derives a container ID from a namespace's path, as cnitool does.
 *
 * Source: containernetworking/cni cnitool/cnitool.go.
 *
 * @param netns The absolute path; links are not resolved
 */
export async function makeContainerId(netns: string): Promise<string> {
  const hash = await sha512(netns);
  return `cnitool-${hash.slice(0, ID_DIGITS)}`;
}
