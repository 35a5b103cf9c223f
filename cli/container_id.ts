/**
 * Container IDs of namespaces that no runtime named.
 *
 * @module
 */

import { sha512 } from "../cni/sha512.ts";

/** How many digits of the hash are in an ID: ten bytes. */
const ID_DIGITS = 20;

/**
 * Makes a container ID of a namespace's path, the same as cnitool does.
 *
 * Source: containernetworking/cni cnitool/cnitool.go.
 *
 * @param netns The absolute path; its links are not followed
 */
export async function makeContainerId(netns: string): Promise<string> {
  const hash = await sha512(netns);
  return `cnitool-${hash.slice(0, ID_DIGITS)}`;
}
