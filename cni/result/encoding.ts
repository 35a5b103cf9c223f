/**
 * Encoding a result in any version of the specification.
 *
 * @module
 */

import type { IpFamily } from "../../net/ip.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import {
  type JsonObject,
  type JsonValue,
  omitAbsent,
  sortKeys,
} from "../../base/json/json.ts";
import {
  type Dns,
  type Interface,
  type IpConfig,
  isEmptyDns,
  type Result,
  type Route,
} from "./result.ts";
import { getResultShape, type ResultShape } from "./versions.ts";
import { DEFAULT_VERSION } from "../version.ts";

/** Converts a result to a shape, labelled with one of its versions. */
type Encoder = (result: Result, version: string) => JsonObject;

const ENCODERS: Readonly<Record<ResultShape, Encoder>> = {
  pair: encodePair,
  versionedLists: encodeVersionedLists,
  lists: encodeLists,
};

/**
 * Encodes a result in a version, with keys in the Go library's order.
 *
 * 0.1.0 and 0.2.0 keep the first address of either IP version, with its routes'
 * `dst` and `gw`; 0.3.0 to 0.4.0 leave out `mtu`, `socketPath` and `pciID` of
 * interfaces.
 *
 * @param version A version of the specification; "" is 0.1.0
 * @throws {CniError} 1 if the version is unknown, or needs an address and the
 *   result has none
 */
export function encodeResult(result: Result, version: string): JsonObject {
  const encode = ENCODERS[getResultShape(version)];
  return encode(result, version || DEFAULT_VERSION);
}

/**
 * Formats a result as plugins print it: indented by 4 spaces, without a final line
 * feed.
 *
 * @throws {CniError} 1 As {@linkcode encodeResult}
 */
export function formatResult(result: Result, version: string): string {
  return JSON.stringify(encodeResult(result, version), null, 4);
}

/** 0.1.0 and 0.2.0: one address of each IP version, with its routes. */
function encodePair(result: Result, version: string): JsonObject {
  const ip4 = encodeFirstIp(result, 4);
  const ip6 = encodeFirstIp(result, 6);
  if (ip4 === undefined && ip6 === undefined) {
    throw new CniError(
      ErrorCode.IncompatibleVersion,
      "cannot convert: no valid IP addresses",
    );
  }
  return omitAbsent<JsonObject>({
    cniVersion: version,
    ip4,
    ip6,
    dns: encodeDns(result.dns),
  });
}

function encodeFirstIp(
  { ips, routes }: Result,
  family: IpFamily,
): JsonObject | undefined {
  const ip = ips.find(({ address }) => address.family === family);
  if (ip === undefined) return undefined;
  return omitAbsent<JsonObject>({
    ip: ip.address.toString(),
    gateway: ip.gateway?.toString(),
    routes: encodeList(
      routes.filter(({ dst }) => dst.family === family),
      ({ dst, gw }) => encodeRoute({ dst, gw }),
    ),
  });
}

/** 0.3.0 to 0.4.0: every `ips` entry has its IP version, `dns` is always present. */
function encodeVersionedLists(result: Result, version: string): JsonObject {
  return {
    ...omitAbsent<JsonObject>({
      cniVersion: version,
      interfaces: encodeList(
        result.interfaces,
        ({ name, mac, sandbox, unknownKeys }) =>
          encodeInterface({ name, mac, sandbox, unknownKeys }),
      ),
      ips: encodeList(result.ips, (ip) => ({
        version: String(ip.address.family),
        ...encodeIpConfig(ip),
      })),
      routes: encodeList(result.routes, encodeRoute),
      dns: encodeDns(result.dns),
    }),
    ...result.unknownKeys,
  };
}

/** 1.0.0 and 1.1.0: keys in alphabetical order, because Go prints a map. */
function encodeLists(result: Result, version: string): JsonObject {
  return sortKeys({
    ...omitAbsent<JsonObject>({
      cniVersion: version,
      interfaces: encodeList(result.interfaces, encodeInterface),
      ips: encodeList(result.ips, encodeIpConfig),
      routes: encodeList(result.routes, encodeRoute),
      dns: isEmptyDns(result.dns) ? undefined : encodeDns(result.dns),
    }),
    ...result.unknownKeys,
  });
}

/** Encodes a list; an empty one is omitted. */
function encodeList<T>(
  items: readonly T[],
  encode: (item: T) => JsonValue,
): JsonValue[] | undefined {
  return items.length === 0 ? undefined : items.map((item) => encode(item));
}

function encodeInterface(link: Interface): JsonObject {
  return {
    ...omitAbsent<JsonObject>({
      name: link.name,
      mac: link.mac || undefined,
      mtu: link.mtu || undefined,
      sandbox: link.sandbox || undefined,
      socketPath: link.socketPath || undefined,
      pciID: link.pciId || undefined,
    }),
    ...link.unknownKeys,
  };
}

function encodeIpConfig(ip: IpConfig): JsonObject {
  return {
    ...omitAbsent<JsonObject>({
      interface: ip.interface,
      address: ip.address.toString(),
      gateway: ip.gateway?.toString(),
    }),
    ...ip.unknownKeys,
  };
}

/** Encodes a route, with keys in the Go library's order. */
export function encodeRoute(route: Route): JsonObject {
  return {
    ...omitAbsent<JsonObject>({
      dst: route.dst.toString(),
      gw: route.gw?.toString(),
      mtu: route.mtu || undefined,
      advmss: route.advmss || undefined,
      priority: route.priority || undefined,
      table: route.table,
      scope: route.scope,
    }),
    ...route.unknownKeys,
  };
}

function encodeDns(dns: Dns): JsonObject {
  return omitAbsent<JsonObject>({
    nameservers: encodeList(dns.nameservers, String),
    domain: dns.domain || undefined,
    search: encodeList(dns.search, String),
    options: encodeList(dns.options, String),
  });
}
