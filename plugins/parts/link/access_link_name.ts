/**
 * The names of the host's links to its macvlan and ipvlan containers.
 *
 * @module
 */

import { stableName } from "../owner/stable_name.ts";

const PREFIX = "cnih";
const ACCESS_LINK_NAME = /^cnih[0-9a-f]{11}$/;

/** Names the link for containers of a network on one master, of one kind. */
export function accessLinkNameOf(
  network: string,
  master: string,
  kind: string,
): string {
  return stableName(PREFIX, network, master, kind);
}

/** Reports whether a link of the host has such a name. */
export function isAccessLinkName(name: string): boolean {
  return ACCESS_LINK_NAME.test(name);
}
