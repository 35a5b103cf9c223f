/**
 * What an attachment consists of, as plugins pass it along.
 *
 * There is one shape in memory, the newest version's, with addresses as values.
 * The shapes that travel are the business of `result_versions.ts`. A result
 * does not know its version: it is read in one and may be printed in another.
 *
 * Source: CNI spec 1.1.0, "Result types".
 *
 * @module
 */

import type { Cidr } from "../net/cidr.ts";
import type { Ip } from "../net/ip.ts";
import type { JsonObject } from "./json.ts";

/** A network interface that belongs to an attachment. */
export interface Interface {
  /** The link's name in its namespace. */
  readonly name: string;
  /** The hardware address, as its plugin wrote it. */
  readonly mac?: string | undefined;
  /** In bytes. */
  readonly mtu?: number | undefined;
  /** The value of CNI_NETNS for an interface of the container, else absent. */
  readonly sandbox?: string | undefined;
  /** A socket that leads to the interface, such as one for vhost-user. */
  readonly socketPath?: string | undefined;
  /** The PCI device behind the interface. */
  readonly pciId?: string | undefined;
  /** Keys that no version knows, to be passed on. */
  readonly unknownKeys?: JsonObject | undefined;
}

/** An address of the container. */
export interface IpConfig {
  /** Position in {@linkcode Result.interfaces}; IPAM plugins leave it out. */
  readonly interface?: number | undefined;
  /** The address, with the length of its network's prefix. */
  readonly address: Cidr;
  /** The router of that network. */
  readonly gateway?: Ip | undefined;
  /** Keys that no version knows, to be passed on. */
  readonly unknownKeys?: JsonObject | undefined;
}

/** A route of the container. */
export interface Route {
  /** The destination, with the host bits that it was given. */
  readonly dst: Cidr;
  /** Absent: the plugin that adds the route decides. */
  readonly gw?: Ip | undefined;
  /** In bytes. */
  readonly mtu?: number | undefined;
  /** The maximum segment size to announce, in bytes. */
  readonly advmss?: number | undefined;
  /** The lower, the more preferred. */
  readonly priority?: number | undefined;
  /** The routing table; 0 is not absent. */
  readonly table?: number | undefined;
  /** 0 global, 253 link, 254 host; 0 is not absent. */
  readonly scope?: number | undefined;
  /** Keys that no version knows, to be passed on. */
  readonly unknownKeys?: JsonObject | undefined;
}

/** How the container shall resolve names. */
export interface Dns {
  /** In order of preference. */
  readonly nameservers: readonly string[];
  /** The local domain; "" for none. */
  readonly domain: string;
  /** The domains to try for short names, in order. */
  readonly search: readonly string[];
  /** Passed to the resolver as they are, such as `ndots:5`. */
  readonly options: readonly string[];
}

/** What ADD answers, and what CHECK and DEL get as prevResult. */
export interface Result {
  /** Those that were made for the attachment, in both namespaces. */
  readonly interfaces: readonly Interface[];
  /** In order of assignment; versions before 0.3.0 keep the first of a family. */
  readonly ips: readonly IpConfig[];
  /** Those that the container gets besides its addresses' own. */
  readonly routes: readonly Route[];
  /** Empty if the plugin has no say in it. */
  readonly dns: Dns;
  /** Keys that no version knows, to be passed on. */
  readonly unknownKeys?: JsonObject | undefined;
}

/** Builds a result without anything in it, to be spread and filled. */
export function emptyResult(): Result {
  return { interfaces: [], ips: [], routes: [], dns: emptyDns() };
}

/** Builds resolver settings that set nothing. */
export function emptyDns(): Dns {
  return { nameservers: [], domain: "", search: [], options: [] };
}

/**
 * Tells whether the settings set nothing.
 *
 * Source: containernetworking/cni pkg/types/types.go `DNS.IsEmpty`.
 */
export function isEmptyDns(dns: Dns): boolean {
  return dns.domain === "" && dns.nameservers.length === 0 &&
    dns.search.length === 0 && dns.options.length === 0;
}
