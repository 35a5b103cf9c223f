/**
 * The options that a client sends and requests, by its configuration.
 *
 * Source: containernetworking/plugins plugins/ipam/dhcp/lease.go
 * `prepareOptions`, options.go `parseOptionName`.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import type { Bytes } from "../../net/bytes.ts";
import { Code, OPTIONS, Options } from "../../net/dhcp/options.ts";
import type { DhcpConfig } from "./schema.ts";

/** Options by name. Any other is given by its number. Source: dhcp-options(5). */
const NAMES: ReadonlyMap<string, number> = new Map([
  ["dhcp-client-identifier", Code.clientId],
  ["subnet-mask", OPTIONS.subnetMask[0]],
  ["routers", OPTIONS.routers[0]],
  ["host-name", 12],
  ["user-class", 77],
  ["vendor-class-identifier", 60],
  // The Go plugin does not know these names.
  ["domain-name-servers", OPTIONS.nameServers[0]],
  ["domain-name", OPTIONS.domainName[0]],
  ["domain-search", OPTIONS.domainSearch[0]],
  ["static-routes", OPTIONS.staticRoutes[0]],
  ["rfc3442-classless-static-routes", OPTIONS.classlessRoutes[0]],
]);

/** The options to ask for unless `skipDefault` is set. */
const DEFAULTS = [OPTIONS.routers[0], OPTIONS.subnetMask[0]];

/** Longest value of an option, in bytes. */
const MAX_VALUE = 255;

/**
 * Returns the options of every request.
 *
 * @param cniArgs The value of CNI_ARGS; pairs without `=` are ignored
 * @throws {CniError} 7 if an option is unknown, a value too long, or a key is for
 *   the other address family; names the key
 */
export function wantedOptions(
  ipam: NonNullable<DhcpConfig["ipam"]>,
  cniArgs: string,
): Options {
  const { family = 4, defaultRoute, provide = [], request = [] } = ipam;
  if (family === 4 && defaultRoute !== undefined) {
    throw invalid(
      'Cannot use "defaultRoute" without IPv6: routes of IPv4 come with the lease',
      "ipam.defaultRoute",
    );
  }
  if (family === 6) {
    for (const [key, list] of Object.entries({ provide, request })) {
      if (list.length === 0) continue;
      throw invalid(`Cannot use IPv4 options with "family": 6`, `ipam.${key}`);
    }
  }
  const args = new Map(
    cniArgs.split(";").flatMap((pair) => {
      const [, key, value] = /^([^=]*)=(.*)$/s.exec(pair) ?? [];
      return key === undefined || value === undefined ? [] : [[key, value]];
    }),
  );
  const values = new Map<number, Bytes>();
  for (const [index, { option, value, fromArg }] of provide.entries()) {
    const key = `ipam.provide[${index}]`;
    const code = parseOption(option, `${key}.option`);
    if (value) values.set(code, encodeValue(option, value, `${key}.value`));
    const arg = args.get(fromArg);
    if (arg === undefined) continue;
    values.set(code, encodeValue(option, arg, `${key}.fromArg`));
  }
  const asked = request.flatMap(({ option }, index) =>
    option === "" ? [] : [parseOption(option, `ipam.request[${index}].option`)]
  );
  if (!request.some(({ skipDefault }) => skipDefault)) asked.push(...DEFAULTS);
  if (asked.length > 0) {
    values.set(Code.requestList, new Uint8Array(new Set(asked)));
  }
  return new Options(values);
}

function parseOption(text: string, key: string): number {
  const code = NAMES.get(text);
  if (code !== undefined) return code;
  // 0 and 255 have no value: they pad the options and end them.
  const number = /^\d+$/.test(text) ? Number(text) : 0;
  if (number > 0 && number < 255) return number;
  throw invalid(`Can not parse option ${JSON.stringify(text)}`, key);
}

function encodeValue(option: string, value: string, key: string): Bytes {
  const bytes = new TextEncoder().encode(value);
  if (bytes.length <= MAX_VALUE) return bytes;
  const [name, text] = [option, value].map((text) => JSON.stringify(text));
  throw invalid(`value too long for option ${name}: ${text}`, key);
}

/** @param key The key of the configuration */
function invalid(message: string, key: string): CniError {
  const code = ErrorCode.InvalidNetworkConfig;
  return new CniError(code, message, { details: `the key is ${key}` });
}
