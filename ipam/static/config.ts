/**
 * Collects the addresses of an attachment from all sources.
 *
 * @module
 */

import { loadArgs } from "../../cni/call/args.ts";
import { CniError, ErrorCode, invalidConfig } from "../../base/error.ts";
import {
  checkGatewayFamily,
  checkOnePerFamily,
} from "../../cni/result/one_per_family.ts";
import type { Call } from "../../cni/plugin.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip, unlessNoAddress } from "../../net/ip.ts";
import type { StaticConfig } from "./schema.ts";

/** An address of an attachment. */
export interface StaticAddress {
  readonly address: Cidr;
  /** Undefined for none. */
  readonly gateway: Ip | undefined;
  /**
   * Whether the gateway was not configured with the address, but found by its
   * subnet. The Go plugin's results lack such gateways.
   */
  readonly isGatewayFound?: boolean;
}

/**
 * Lists the addresses of an attachment: from `runtimeConfig`; if that has none,
 * from `args`; otherwise from `addresses` and CNI_ARGS together.
 *
 * An unused list is validated all the same, unless it is `addresses`.
 *
 * Source: containernetworking/plugins plugins/ipam/static/main.go
 * `LoadIPAMConfig`.
 *
 * @throws {CniError} 7 if the configuration lacks `ipam`, has an invalid
 *   address, or more addresses than its version allows; 4 if CNI_ARGS is
 *   invalid
 */
export function addressesOf(
  { config, args, cniVersion }: Pick<
    Call<StaticConfig>,
    "config" | "args" | "cniVersion"
  >,
): StaticAddress[] {
  const { ipam, runtimeConfig } = config;
  if (ipam === undefined) throw invalidConfig("IPAM config missing 'ipam' key");
  const fromCniArgs = readCniArgs(args.args);
  const requested = [config.args?.cni?.ips, runtimeConfig?.ips]
    .map((ips) => (ips ?? []).map(parseRequested))
    .findLast((ips) => ips.length > 0);
  const addresses = requested === undefined
    ? mergeCniArgs((ipam.addresses ?? []).map(parseConfigured), fromCniArgs)
    : requested.map((address) => withKnownGateway(address, config));
  checkOnePerFamily(
    addresses.map(({ address }) => address.family),
    cniVersion,
  );
  for (const { address, gateway } of addresses) {
    checkGatewayFamily(address, gateway);
  }
  return addresses;
}

type ConfiguredAddress = NonNullable<
  NonNullable<StaticConfig["ipam"]>["addresses"]
>[number];

function parseConfigured(
  { address: text, gateway }: ConfiguredAddress,
): StaticAddress {
  const address = parseCidr(text);
  if (address !== undefined) return { address, gateway };
  throw invalidConfig(
    `the 'address' field is expected to be in CIDR notation, got: '${text}'`,
  );
}

function parseRequested(text: string): Cidr {
  const address = parseCidr(text);
  if (address !== undefined) return address;
  throw invalidConfig(
    `an entry in the 'ips' field is NOT in CIDR notation, got: '${text}'`,
  );
}

/** The addresses in CNI_ARGS. */
interface CniArgsAddresses {
  readonly addresses: readonly Cidr[];
  /** Each gateway applies to the addresses of its subnet. */
  readonly gateways: readonly Ip[];
}

function readCniArgs(text: string): CniArgsAddresses {
  const { IP: ips, GATEWAY: gateways } = loadArgs(text, {
    IP: splitList,
    GATEWAY: splitList,
  });
  return {
    addresses: (ips ?? []).map(parseIpArg),
    gateways: (gateways ?? []).map(parseGatewayArg),
  };
}

function splitList(text: string): string[] {
  return text.split(",");
}

function parseIpArg(item: string): Cidr {
  const text = item.trim();
  const address = parseCidr(text);
  if (address !== undefined) return address;
  throw invalidArg(
    `the 'ip' field is expected to be in CIDR notation, got: '${text}'`,
  );
}

function parseGatewayArg(item: string): Ip {
  const gateway = unlessNoAddress(() => Ip.parse(item.trim()));
  if (gateway !== undefined) return gateway;
  throw invalidArg(`invalid gateway address: ${item}`);
}

/**
 * Adds the addresses of CNI_ARGS, and its gateways to addresses without a gateway.
 */
function mergeCniArgs(
  configured: readonly StaticAddress[],
  { addresses, gateways }: CniArgsAddresses,
): StaticAddress[] {
  const findGateway = (address: Cidr): Ip | undefined =>
    gateways.findLast((gateway) => address.contains(gateway));
  return [
    ...configured.map((own): StaticAddress =>
      own.gateway !== undefined ? own : {
        ...own,
        gateway: findGateway(own.address),
        isGatewayFound: true,
      }
    ),
    ...addresses.map((address) => ({ address, gateway: findGateway(address) })),
  ];
}

/**
 * Finds the gateway of an address in the overridden `addresses`: an entry of its
 * subnet or, without such an entry, an entry of its family that has a gateway only.
 */
function withKnownGateway(
  address: Cidr,
  { ipam }: StaticConfig,
): StaticAddress {
  const withGateway = (ipam?.addresses ?? [])
    .filter(({ gateway }) => gateway !== undefined);
  const known =
    withGateway.find((one) => parseCidr(one.address)?.contains(address.ip)) ??
      withGateway.find((one) =>
        one.address === "" && one.gateway?.family === address.family
      );
  return { address, gateway: known?.gateway, isGatewayFound: true };
}

function parseCidr(text: string): Cidr | undefined {
  return unlessNoAddress(() => Cidr.parse(text));
}

function invalidArg(message: string): CniError {
  return new CniError(ErrorCode.InvalidEnvironment, message);
}
