/**
 * Results: the description of an attachment that plugins pass along.
 *
 * In memory there is one shape, the newest version's, with parsed addresses.
 * `versions.ts` has the shapes on the wire. A result does not know its
 * version: it can be read in one and printed in another.
 *
 * Source: CNI spec 1.1.0, "Result types".
 *
 * @module
 */

import type { Cidr } from "../../net/cidr.ts";
import type { Ip } from "../../net/ip.ts";
import type { JsonObject } from "../../base/json/json.ts";

/** A network interface that belongs to an attachment. */
export interface Interface {
  /** The link's name in its namespace. */
  readonly name: string;
  /** The hardware address as the plugin wrote it. */
  readonly mac?: string | undefined;
  /** In bytes. */
  readonly mtu?: number | undefined;
  /**
   * The value of CNI_NETNS for an interface of the container; otherwise absent.
   */
  readonly sandbox?: string | undefined;
  /** Path of a socket to the interface, such as vhost-user. */
  readonly socketPath?: string | undefined;
  /** The PCI device behind the interface. */
  readonly pciId?: string | undefined;
  /** Keys that no version defines, to be passed on. */
  readonly unknownKeys?: JsonObject | undefined;
}

/** An address of the container. */
export interface IpConfig {
  /** Index into {@linkcode Result.interfaces}; IPAM plugins omit it. */
  readonly interface?: number | undefined;
  /** The address, with the length of its network's prefix. */
  readonly address: Cidr;
  /** The gateway of that network. */
  readonly gateway?: Ip | undefined;
  /** Keys that no version defines, to be passed on. */
  readonly unknownKeys?: JsonObject | undefined;
}

/** A route of the container. */
export interface Route {
  /** The destination, host bits included. */
  readonly dst: Cidr;
  /** Absent: the plugin that adds the route decides. */
  readonly gw?: Ip | undefined;
  /** In bytes. */
  readonly mtu?: number | undefined;
  /** The maximum segment size to announce, in bytes. */
  readonly advmss?: number | undefined;
  /** Lower values are preferred. */
  readonly priority?: number | undefined;
  /** The routing table; 0 is not absent. */
  readonly table?: number | undefined;
  /** 0 global, 253 link, 254 host; 0 is not absent. */
  readonly scope?: number | undefined;
  /** Keys that no version defines, to be passed on. */
  readonly unknownKeys?: JsonObject | undefined;
}

/** The container's DNS configuration. */
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

/** The result of ADD, and the prevResult of CHECK and DEL. */
export interface Result {
  /** The attachment's interfaces, in both namespaces. */
  readonly interfaces: readonly Interface[];
  /** In order of assignment. Versions before 0.3.0 keep the first one per family. */
  readonly ips: readonly IpConfig[];
  /** Routes in addition to those that come with the addresses. */
  readonly routes: readonly Route[];
  /** Empty if the plugin does not set it. */
  readonly dns: Dns;
  /** Keys that no version defines, to be passed on. */
  readonly unknownKeys?: JsonObject | undefined;
}

/** Builds an empty result to spread and fill. */
export function emptyResult(): Result {
  return { interfaces: [], ips: [], routes: [], dns: emptyDns() };
}

/** Builds an empty DNS configuration. */
export function emptyDns(): Dns {
  return { nameservers: [], domain: "", search: [], options: [] };
}

/**
 * Reports whether a DNS configuration is empty.
 *
 * Source: containernetworking/cni pkg/types/types.go `DNS.IsEmpty`.
 */
export function isEmptyDns(dns: Dns): boolean {
  return dns.domain === "" && dns.nameservers.length === 0 &&
    dns.search.length === 0 && dns.options.length === 0;
}
