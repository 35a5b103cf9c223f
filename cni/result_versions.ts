/**
 * The shapes that a result had in the course of the specification, and how each
 * is read into and printed from the one {@linkcode Result} of `result.ts`.
 *
 * There are three: one address per IP version (0.1.0 and 0.2.0), lists (0.3.0
 * to 0.4.0), and lists whose addresses do not repeat their IP version (1.0.0
 * and 1.1.0). To convert is to read one and print another.
 *
 * Source: containernetworking/cni pkg/types/{020,040,100}/types.go.
 *
 * @module
 */

import * as z from "zod/mini";
import type { IpFamily } from "../net/ip.ts";
import { CniError, ErrorCode } from "./error.ts";
import {
  decode,
  type JsonObject,
  type JsonValue,
  omitAbsent,
  sortKeys,
} from "./json.ts";
import {
  type Dns,
  emptyDns,
  type Interface,
  type IpConfig,
  isEmptyDns,
  type Result,
  type Route,
} from "./result.ts";
import {
  cidrSchema,
  collectUnknown,
  dnsSchema,
  type NetConf,
  once,
  optional,
  optionalIpSchema,
  routeSchema,
} from "./types.ts";
import { DEFAULT_VERSION } from "./version.ts";

/** The versions that share a shape, and that shape. */
interface ResultFamily {
  /** Oldest first. */
  readonly versions: readonly string[];
  readonly schema: () => z.ZodMiniType<Result>;
  /** Lays a result out in the shape, stamped with one of the versions. */
  readonly encode: (result: Result, version: string) => JsonObject;
}

const listsSchema = once(buildListsSchema);

const FAMILIES: readonly ResultFamily[] = [
  {
    // Plugins that know 0.1.0 alone do not name a version.
    versions: ["", "0.1.0", "0.2.0"],
    schema: once(buildPairSchema),
    encode: encodePair,
  },
  {
    versions: ["0.3.0", "0.3.1", "0.4.0"],
    schema: listsSchema,
    encode: encodeVersionedLists,
  },
  {
    versions: ["1.0.0", "1.1.0"],
    schema: listsSchema,
    encode: encodeLists,
  },
];

/**
 * Says whether results of two versions have the same shape, so that a plugin
 * that is called in the one can read the other as prevResult.
 */
export function haveSameShape(left: string, right: string): boolean {
  return FAMILIES.some(({ versions }) =>
    versions.includes(left) && versions.includes(right)
  );
}

const versionedSchema = once(() =>
  z.looseObject({ cniVersion: optional(z.string()) })
);

/** @throws {CniError} 1 If no version of the specification is named so */
function getFamily(version: string): ResultFamily {
  const family = FAMILIES.find(({ versions }) => versions.includes(version));
  if (family !== undefined) return family;
  throw new CniError(
    ErrorCode.IncompatibleVersion,
    `unsupported CNI result version "${version}"`,
  );
}

/**
 * Decodes a result in the version that it names itself.
 *
 * Keys that the versions from 0.3.0 do not know are kept in `unknownKeys`.
 *
 * Source: containernetworking/cni pkg/types/create/create.go `CreateFromBytes`;
 * pkg/invoke/exec.go `fixupResultVersion`.
 *
 * @param value A parsed JSON document
 * @param defaultVersion The version of a result that names none: that of the
 *   configuration that the answering plugin was given
 * @throws {CniError} 1 If the version is unknown; 6 if the value is no result of it
 */
export function decodeResult(
  value: unknown,
  defaultVersion: string = DEFAULT_VERSION,
): Result {
  const code = ErrorCode.DecodingFailure;
  const { cniVersion } = decode(versionedSchema(), value, "result", code);
  const { schema } = getFamily(cniVersion || defaultVersion);
  return decode(schema(), value, "result", code);
}

/**
 * Decodes the result that a runtime hands on with a configuration.
 *
 * It must be of the configuration's own family of versions, which is also what
 * it is taken for if it names no version.
 *
 * Source: containernetworking/cni pkg/version/version.go `ParsePrevResult`. An
 * empty version, an error there from 0.3.0, counts as none.
 *
 * @returns Nothing if the configuration has no prevResult
 * @throws {CniError} 1 If the versions do not fit; 7 if the prevResult is no result
 */
export function parsePrevResult(
  config: Pick<NetConf, "prevResult"> & { readonly cniVersion?: string },
): Result | undefined {
  const { prevResult, cniVersion: configVersion = "" } = config;
  if (prevResult === undefined) return undefined;
  const what = "prevResult";
  const { schema, versions } = getFamily(configVersion);
  const { cniVersion } = decode(versionedSchema(), prevResult, what);
  if (!versions.includes(cniVersion || configVersion)) {
    throw new CniError(
      ErrorCode.IncompatibleVersion,
      `could not parse prevResult: result type supports [${
        versions.join(" ")
      }] but unmarshalled CNIVersion is "${cniVersion}"`,
    );
  }
  return decode(schema(), prevResult, what);
}

/**
 * Encodes a result as a version has it, with the keys in the order in which the
 * Go library prints them.
 *
 * 0.1.0 and 0.2.0 keep the first address of either IP version, with its routes'
 * `dst` and `gw`; 0.3.0 to 0.4.0 leave out `mtu`, `socketPath` and `pciID` of
 * interfaces.
 *
 * @param version A version of the specification; "" is 0.1.0
 * @throws {CniError} 1 If the version is unknown, or cannot do without an
 *   address and there is none
 */
export function encodeResult(result: Result, version: string): JsonObject {
  return getFamily(version).encode(result, version || DEFAULT_VERSION);
}

/**
 * Prints a result as plugins do: indented by 4 spaces, without a line feed at
 * the end.
 *
 * @throws {CniError} 1 As {@linkcode encodeResult}
 */
export function formatResult(result: Result, version: string): string {
  return JSON.stringify(encodeResult(result, version), null, 4);
}

/** Reads 0.1.0 and 0.2.0, where what nobody specified is not passed on. */
function buildPairSchema(): z.ZodMiniType<Result> {
  const ipSchema = z.object({
    ip: cidrSchema(),
    gateway: optionalIpSchema(),
    routes: optional(z.array(routeSchema())),
  });
  return z.pipe(
    z.object({
      ip4: optional(ipSchema),
      ip6: optional(ipSchema),
      dns: optional(dnsSchema()),
    }),
    z.transform(({ ip4, ip6, dns = emptyDns() }): Result => {
      const pair = [ip4, ip6].filter((ip) => ip !== undefined);
      return {
        interfaces: [],
        ips: pair.map(({ ip, gateway }) =>
          omitAbsent<IpConfig>({ address: ip, gateway })
        ),
        routes: pair.flatMap(({ routes = [] }) => routes),
        dns,
      };
    }),
  );
}

/** Reads everything from 0.3.0 on: a key has one meaning wherever it occurs. */
function buildListsSchema(): z.ZodMiniType<Result> {
  return z.pipe(
    z.looseObject({
      cniVersion: optional(z.string()),
      interfaces: optional(z.array(buildInterfaceSchema())),
      ips: optional(z.array(buildIpConfigSchema())),
      routes: optional(z.array(routeSchema())),
      dns: optional(dnsSchema()),
    }),
    z.transform((result): Result => {
      const { cniVersion: _, interfaces, ips, routes, dns, ...others } = result;
      return omitAbsent<Result>({
        interfaces: interfaces ?? [],
        ips: ips ?? [],
        routes: routes ?? [],
        dns: dns ?? emptyDns(),
        unknownKeys: collectUnknown(others),
      });
    }),
  );
}

function buildInterfaceSchema(): z.ZodMiniType<Interface> {
  const text = optional(z.string());
  return z.pipe(
    z.looseObject({
      name: text,
      mac: text,
      mtu: optional(z.int()),
      sandbox: text,
      socketPath: text,
      pciID: text,
    }),
    z.transform((link): Interface => {
      const { name, mac, mtu, sandbox, socketPath, pciID, ...others } = link;
      return omitAbsent<Interface>({
        name: name ?? "",
        mac: mac || undefined,
        mtu: mtu || undefined,
        sandbox: sandbox || undefined,
        socketPath: socketPath || undefined,
        pciId: pciID || undefined,
        unknownKeys: collectUnknown(others),
      });
    }),
  );
}

function buildIpConfigSchema(): z.ZodMiniType<IpConfig> {
  return z.pipe(
    z.looseObject({
      // Repeats what the address says, and is ignored from 1.0.0.
      version: optional(z.unknown()),
      interface: optional(z.int()),
      address: cidrSchema(),
      gateway: optionalIpSchema(),
    }),
    z.transform((ip): IpConfig => {
      const { version: _, interface: index, address, gateway, ...others } = ip;
      return omitAbsent<IpConfig>({
        interface: index,
        address,
        gateway,
        unknownKeys: collectUnknown(others),
      });
    }),
  );
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

/** 0.3.0 to 0.4.0: every `ips` entry says its IP version, `dns` is always there. */
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

/** 1.0.0 and 1.1.0: keys in alphabetical order, for Go prints them from a map. */
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

/** Encodes a list, which is absent if there is nothing in it. */
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

function encodeRoute(route: Route): JsonObject {
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
