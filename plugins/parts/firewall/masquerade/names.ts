/**
 * Names of an attachment's masquerade in the kernel.
 *
 * The Go plugins use the same names, so each side finds the other's rules.
 *
 * Source: containernetworking/plugins pkg/ip/ipmasq_nftables_linux.go,
 * pkg/utils/utils.go `FormatChainName`, `FormatComment`.
 *
 * @module
 */

import { sha512 } from "../../../../base/process/sha512.ts";
import { COMMENT_MAX_BYTES } from "../../../../ffi/nftables/comment.ts";
import { Cidr } from "../../../../net/cidr.ts";
import type { Ip, IpFamily } from "../../../../net/ip.ts";
import type { Attachment } from "../../../../cni/config/types.ts";

/** Destinations that are not masqueraded, because they do not leave the link. */
export const MULTICAST: Readonly<Record<IpFamily, Cidr>> = {
  4: Cidr.parse("224.0.0.0/4"),
  6: Cidr.parse("ff00::/8"),
};

/** The names of one attachment. */
export interface MasqueradeNames {
  /** Prefix of the nftables comments of all attachments to the network. */
  readonly networkHash: string;
  /** Prefix of the nftables comments of this attachment. */
  readonly instance: string;
  /** The nftables comment. */
  readonly comment: string;
  /** The iptables chain; other attachments of the container to the network share it. */
  readonly chain: string;
  /** The iptables comment. */
  readonly iptablesComment: string;
}

/** What the rules of one attachment are made of. */
export interface MasqueradeRules extends MasqueradeNames {
  /** The addresses with which packets leave, instead of the addresses of links. */
  readonly outbound: readonly Ip[];
}

/**
 * Reports whether a rule for packets from an address is an attachment's; undefined for
 * a rule without a source.
 */
export type SourceTest = (source: Ip | undefined) => boolean;

/** Finds the address with which packets of a family leave. */
export function findOutbound(
  { outbound }: Pick<MasqueradeRules, "outbound">,
  family: IpFamily,
): Ip | undefined {
  return outbound.find((ip) => ip.family === family);
}

/** Returns the instance that an nftables comment begins with. */
export function instanceIn({ comment }: { readonly comment: string }): string {
  return comment.slice(0, INSTANCE_DIGITS);
}

/** Digits of a hash in comments and labels. */
export const HASH_DIGITS = 16;

/** Length of an instance: two hashes and the dash between them. */
export const INSTANCE_DIGITS = 2 * HASH_DIGITS + 1;

/** Computes the names of an attachment. */
export async function namesOf(owner: Attachment): Promise<MasqueradeNames> {
  const { network, containerId, ifName } = owner;
  const [networkHash, attachmentHash, chainHash] = await Promise.all([
    sha512(network),
    sha512(`${ifName}:${containerId}`),
    sha512(network + containerId),
  ]);
  const instance = `${networkHash.slice(0, HASH_DIGITS)}-${
    attachmentHash.slice(0, HASH_DIGITS)
  }`;
  const text =
    `${instance}, net: ${network}, if: ${ifName}, id: ${containerId}`;
  return {
    networkHash: networkHash.slice(0, HASH_DIGITS),
    instance,
    comment: cutBytes(text.replaceAll('"', ""), COMMENT_MAX_BYTES - 1),
    chain: `CNI-${chainHash.slice(0, 24)}`,
    iptablesComment: `${iptablesPrefixOf(network)}${containerId}"`,
  };
}

/** Returns the prefix of the iptables comments of all attachments to a network. */
function iptablesPrefixOf(network: string): string {
  return `name: "${network}" id: "`;
}

/**
 * Returns the container that an iptables comment names.
 *
 * @returns Undefined if it names another network
 */
export function containerIn(
  comment: string,
  network: string,
): string | undefined {
  const prefix = iptablesPrefixOf(network);
  return comment.startsWith(prefix)
    ? comment.slice(prefix.length).replace(/"$/, "")
    : undefined;
}

/** Truncates a text to a number of bytes, between characters. */
export function cutBytes(text: string, length: number): string {
  const bytes = new TextEncoder().encode(text).subarray(0, length);
  return new TextDecoder().decode(bytes, { stream: true });
}
