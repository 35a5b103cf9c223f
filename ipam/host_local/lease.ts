/**
 * Leases, and what their files hold: `<container ID>\r\n<interface>`, or only the
 * container ID if a very old plugin wrote it. A lease that stays for a name is a
 * link instead (holders.ts).
 *
 * Source: containernetworking/plugins
 * plugins/ipam/host-local/backend/disk/backend.go.
 *
 * @module
 */

import { Ip, unlessNoAddress } from "../../net/ip.ts";
import { findHolder } from "./holders.ts";

/** The owner of a lease. */
export interface Owner {
  readonly containerId: string;
  readonly ifName: string;
}

/** A lease. */
export interface Lease {
  readonly ip: Ip;
  /** Path of the file. */
  readonly path: string;
  /** The owner as written, without surrounding blanks. */
  readonly content: string;
}

const SEPARATOR = "\r\n";

/** Formats the content of an owner's leases. */
export function formatOwner({ containerId, ifName }: Owner): string {
  return `${formatContainer(containerId)}${SEPARATOR}${ifName}`;
}

/** Formats a lease of the container alone, as very old plugins do. */
export function formatContainer(containerId: string): string {
  return containerId.trim();
}

/** Describes the owner of a lease. */
export function describeOwner(content: string): string {
  const holder = findHolder(content);
  if (holder !== undefined) {
    const { namespace, pod, ifName } = holder;
    return `pod "${namespace}/${pod}", interface "${ifName}", for which it stays`;
  }
  const [containerId, ifName] = content.split(SEPARATOR);
  return ifName === undefined
    ? `container "${containerId}"`
    : `container "${containerId}", interface "${ifName}"`;
}

/** Parses an address; undefined if the text is not an address. */
export function findIp(text: string): Ip | undefined {
  return unlessNoAddress(() => Ip.parse(text));
}
