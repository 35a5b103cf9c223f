/**
 * Decoding results of any version into the shape of `result.ts`.
 *
 * Most ADDs have no result to read and do not load this.
 *
 * @module
 */

import * as z from "zod/mini";
import { CniError, ErrorCode } from "../../base/error.ts";
import { decode, omitAbsent, once } from "../../base/json/json.ts";
import {
  emptyDns,
  type Interface,
  type IpConfig,
  type Result,
} from "./result.ts";
import {
  getResultShape,
  listVersionsOf,
  type ResultShape,
} from "./versions.ts";
import {
  cidrSchema,
  collectUnknown,
  dnsSchema,
  type NetConf,
  optional,
  optionalIpSchema,
  routeSchema,
} from "../config/types.ts";
import { DEFAULT_VERSION } from "../version.ts";

const listsSchema = once(buildListsSchema);

const SCHEMAS: Readonly<Record<ResultShape, () => z.ZodMiniType<Result>>> = {
  pair: once(buildPairSchema),
  versionedLists: listsSchema,
  lists: listsSchema,
};

const versionedSchema = once(() =>
  z.looseObject({ cniVersion: optional(z.string()) })
);

/**
 * Decodes a result in the version that it names.
 *
 * In 0.3.0 and later, unknown keys are kept in `unknownKeys`.
 *
 * Source: containernetworking/cni pkg/types/create/create.go `CreateFromBytes`;
 * pkg/invoke/exec.go `fixupResultVersion`.
 *
 * @param value A parsed JSON document
 * @param defaultVersion The version of a result without one: the version of the
 *   plugin's configuration
 * @throws {CniError} 1 if the version is unknown; 6 if the value is not a result of it
 */
export function decodeResult(
  value: unknown,
  defaultVersion: string = DEFAULT_VERSION,
): Result {
  const code = ErrorCode.DecodingFailure;
  const { cniVersion } = decode(versionedSchema(), value, "result", code);
  const schema = SCHEMAS[getResultShape(cniVersion || defaultVersion)];
  return decode(schema(), value, "result", code);
}

/**
 * Decodes the prevResult of a configuration.
 *
 * It must be of the configuration's version family. Without a version it is read
 * in the configuration's.
 *
 * Source: containernetworking/cni pkg/version/version.go `ParsePrevResult`. An
 * empty version, an error there from 0.3.0, counts as absent.
 *
 * @returns Undefined if the configuration has no prevResult
 * @throws {CniError} 1 if the versions do not match; 7 if it is not a result
 */
export function parsePrevResult(
  config: Pick<NetConf, "prevResult"> & { readonly cniVersion?: string },
): Result | undefined {
  const { prevResult, cniVersion: configVersion = "" } = config;
  if (prevResult === undefined) return undefined;
  const what = "prevResult";
  const shape = getResultShape(configVersion);
  const versions = listVersionsOf(shape);
  const { cniVersion } = decode(versionedSchema(), prevResult, what);
  if (!versions.includes(cniVersion || configVersion)) {
    throw new CniError(
      ErrorCode.IncompatibleVersion,
      `could not parse prevResult: result type supports [${
        versions.join(" ")
      }] but unmarshalled CNIVersion is "${cniVersion}"`,
    );
  }
  return decode(SCHEMAS[shape](), prevResult, what);
}

/** Reads 0.1.0 and 0.2.0, which drop unknown keys. */
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

/** Reads everything from 0.3.0 on, where a key means the same in every version. */
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
      // Repeats the family of the address, and is ignored in 1.0.0 and later.
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
