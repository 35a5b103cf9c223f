/**
 * Container IDs of namespaces that no runtime named.
 *
 * @module
 */

/** How many bytes of the hash are in an ID. */
const ID_BYTES = 10;

/**
 * Makes a container ID of a namespace's path, the same as cnitool does.
 *
 * Source: containernetworking/cni cnitool/cnitool.go.
 *
 * @param netns The absolute path; its links are not followed
 */
export async function makeContainerId(netns: string): Promise<string> {
  const path = new TextEncoder().encode(netns);
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-512", path));
  return `cnitool-${hash.slice(0, ID_BYTES).toHex()}`;
}
