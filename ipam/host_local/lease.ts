/**
 * What a lease says, and how it is written.
 *
 * @module
 */

import { Ip, unlessNoAddress } from "../../net/ip.ts";

/** To whom an address is leased. */
export interface Owner {
  readonly containerId: string;
  readonly ifName: string;
}

/** A lease that was found. */
export interface Lease {
  readonly ip: Ip;
  /** The file that holds it. */
  readonly path: string;
  /** Whom it says it belongs to, without blanks around it. */
  readonly content: string;
}

const SEPARATOR = "\r\n";

/** Formats the content of an owner's leases. */
export function formatOwner({ containerId, ifName }: Owner): string {
  return `${formatContainer(containerId)}${SEPARATOR}${ifName}`;
}

/** Formats a lease of the container alone, as very old plugins wrote them. */
export function formatContainer(containerId: string): string {
  return containerId.trim();
}

/** Describes in words to whom a lease belongs. */
export function describeOwner(content: string): string {
  const [containerId, ifName] = content.split(SEPARATOR);
  return ifName === undefined
    ? `container "${containerId}"`
    : `container "${containerId}", interface "${ifName}"`;
}

/** Parses an address; undefined if the text is none. */
export function findIp(text: string): Ip | undefined {
  return unlessNoAddress(() => Ip.parse(text));
}
