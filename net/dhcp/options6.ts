/**
 * DHCPv6 options. Unlike DHCPv4 options, they nest and can repeat.
 *
 * Source: RFC 8415, section 21.
 *
 * @module
 */

import { type Bytes, concat, u16be, u32be, viewOf } from "../bytes.ts";
import { decodeDomainNames } from "../domain_names.ts";
import { Ip } from "../ip.ts";

/** Numbers of options. Source: RFC 8415, section 21; RFC 3646; RFC 7083. */
export const Code6 = {
  clientId: 1,
  serverId: 2,
  identityAssociation: 3,
  address: 5,
  requestList: 6,
  elapsedTime: 8,
  status: 13,
  nameServers: 23,
  domainSearch: 24,
} as const;

/** Numbers of statuses. Source: RFC 8415, section 21.13. */
export const Status6 = {
  success: 0,
  noAddresses: 2,
  noBinding: 3,
  notOnLink: 4,
} as const;

/** A lifetime that never ends, in seconds. */
export const INFINITE_SECONDS = 0xffff_ffff;

/** An option: its number and its value. */
export type Option6 = readonly [code: number, value: Bytes];

/** A status that a server reports. */
export interface StatusCode {
  readonly code: number;
  readonly text: string;
}

/** An address, and how many seconds it is preferred and valid. */
export interface LeasedAddress {
  readonly ip: Ip;
  readonly preferred: number;
  readonly valid: number;
}

/** An identity association for addresses (IA_NA): the addresses of an interface. */
export interface IdentityAssociation {
  readonly id: number;
  /** When to send RENEW, in seconds; 0 lets the client choose. */
  readonly renewal: number;
  /** When to send REBIND, in seconds; 0 lets the client choose. */
  readonly rebinding: number;
  readonly addresses: readonly LeasedAddress[];
  readonly status: StatusCode | undefined;
}

/** Limit of addresses in an identity association, of DNS servers, and of domains. */
const MOST = 16;
/** The prefix of IPv4 addresses, ::ffff:0:0/96. */
const IPV4_MAPPED = 0xffffn;
const ID_BYTES = 12, ADDRESS_BYTES = 24, IP_BYTES = 16;

/** Encodes options. */
export function encodeOptions6(options: readonly Option6[]): Bytes {
  return concat(options.flatMap(([code, value]) => [
    u16be.encode(code),
    u16be.encode(value.length),
    value,
  ]));
}

/** Decodes options. Stops at a truncated option. */
export function decodeOptions6(bytes: Bytes): Option6[] {
  const options: Option6[] = [];
  const view = viewOf(bytes);
  for (let at = 0; at + 4 <= bytes.length;) {
    const [code, length] = [view.getUint16(at), view.getUint16(at + 2)];
    at += 4;
    if (at + length > bytes.length) break;
    options.push([code, bytes.slice(at, at += length)]);
  }
  return options;
}

/** Returns the value of the first option with a number. */
function findOption6(
  options: readonly Option6[],
  code: number,
): Bytes | undefined {
  return options.find(([other]) => other === code)?.[1];
}

/** Encodes an identity association, which can lack addresses. */
export function encodeAssociation(
  { id, addresses }: Pick<IdentityAssociation, "id" | "addresses">,
): Bytes {
  const nested = addresses.map(({ ip, preferred, valid }): Option6 => [
    Code6.address,
    concat([ip.toBytes(), u32be.encode(preferred), u32be.encode(valid)]),
  ]);
  // The server chooses the times.
  const times = [u32be.encode(0), u32be.encode(0)];
  return concat([u32be.encode(id), ...times, encodeOptions6(nested)]);
}

/** Decodes an identity association; undefined if it or its times are malformed. */
export function decodeAssociation(
  bytes: Bytes,
): IdentityAssociation | undefined {
  if (bytes.length < ID_BYTES) return undefined;
  const view = viewOf(bytes);
  const [id, renewal, rebinding] = [0, 4, 8].map((at) =>
    view.getUint32(at)
  ) as [number, number, number];
  if (renewal > rebinding && rebinding > 0) return undefined;
  const nested = decodeOptions6(bytes.subarray(ID_BYTES));
  const addresses = nested.filter(([code]) => code === Code6.address)
    .flatMap(([, value]) => decodeAddress(value) ?? []).slice(0, MOST);
  return { id, renewal, rebinding, addresses, status: statusIn(nested) };
}

/**
 * Decodes an address; undefined if a container cannot have the address, or its status
 * is a failure.
 */
function decodeAddress(bytes: Bytes): LeasedAddress | undefined {
  if (bytes.length < ADDRESS_BYTES) return undefined;
  const ip = Ip.fromBytes(bytes.slice(0, IP_BYTES));
  const view = viewOf(bytes);
  const [preferred, valid] = [view.getUint32(16), view.getUint32(20)];
  const status = statusIn(decodeOptions6(bytes.subarray(ADDRESS_BYTES)));
  const isMapped = ip.value >> 32n === IPV4_MAPPED;
  if (!ip.isGlobalUnicast || isMapped || preferred > valid) return undefined;
  if ((status?.code ?? Status6.success) !== Status6.success) return undefined;
  return { ip, preferred, valid };
}

/** Returns the status among options; undefined if there is none, which means success. */
export function statusIn(options: readonly Option6[]): StatusCode | undefined {
  const bytes = findOption6(options, Code6.status);
  if (bytes === undefined || bytes.length < 2) return undefined;
  const text = new TextDecoder().decode(bytes.subarray(2));
  return { code: viewOf(bytes).getUint16(0), text };
}

/** Lists the DNS servers in options. */
export function nameServersIn(options: readonly Option6[]): Ip[] {
  const bytes = findOption6(options, Code6.nameServers) ?? new Uint8Array();
  const count = Math.min(Math.floor(bytes.length / IP_BYTES), MOST);
  return Array.from(
    { length: count },
    (_, index) =>
      Ip.fromBytes(bytes.slice(index * IP_BYTES, (index + 1) * IP_BYTES)),
  )
    .filter((ip) => !ip.isLinkLocal && !ip.isUnspecified);
}

/** Lists the search domains in options. */
export function domainsIn(options: readonly Option6[]): string[] {
  const bytes = findOption6(options, Code6.domainSearch) ?? new Uint8Array();
  return decodeDomainNames(bytes).slice(0, MOST);
}
