/**
 * Which addresses a container may ask for: not those that the host has itself.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import {
  findValue,
  type JsonObject,
  type JsonValue,
  listValues,
  objectOf,
} from "../../../base/json/json.ts";
import type { Call } from "../../../cni/plugin.ts";
import type { Result } from "../../../cni/result/result.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { RouteEntry } from "../../../ffi/rtnl/route_entry.ts";
import { Cidr } from "../../../net/cidr.ts";
import { type Ip, unlessNoAddress } from "../../../net/ip.ts";
import { hasAddress } from "../link/configure_link.ts";
import { listRanges } from "./ipam_ranges.ts";
import { ipamHas } from "../traits.ts";

/**
 * Lists the leased addresses for which the call asked, and which neither the
 * configuration nor the IPAM plugin's ranges contain. Without a request, every
 * address is the IPAM plugin's.
 */
export function requestedIpsOf(
  { ips }: Pick<Result, "ips">,
  call: Pick<Call, "args" | "config">,
): Ip[] {
  const { config } = call;
  if (ipamHas(config, "assigns own ranges") || !asksForAddresses(call)) {
    return [];
  }
  const ipam = objectOf(config.ipam as JsonValue);
  const list = findValue(ipam, "addresses");
  const configured = (Array.isArray(list) ? list : []).flatMap((item) => {
    const text = findValue(objectOf(item), "address");
    if (typeof text !== "string") return [];
    return unlessNoAddress(() => Cidr.parse(text)) ?? [];
  });
  return ips.map(({ address }) => address)
    // With another length, an address is of another network.
    .filter((one) =>
      !configured.some((own) => own.equals(one)) &&
      !listRanges(ipam).some((range) => range.containsCidr(one))
    )
    .map(({ ip }) => ip);
}

/** Reports whether CNI_ARGS or the configuration contains requested addresses. */
function asksForAddresses(
  { args, config }: Pick<Call, "args" | "config">,
): boolean {
  const keys = config as unknown as JsonObject;
  const lists = [
    ...listValues(keys, "args").flatMap((args) =>
      listValues(objectOf(args), "cni")
    ),
    ...listValues(keys, "runtimeConfig"),
  ].flatMap((source) => listValues(objectOf(source), "ips"));
  // CNI_ARGS can be malformed for plugins that do not read them.
  return /(^|;)IP=[^;]/.test(args.args) ||
    lists.some((ips) => Array.isArray(ips) && ips.length > 0);
}

/**
 * Refuses an address of the host, which answers for it on each of its links,
 * and the address of a router that the host reaches over one of its links to the
 * container's network.
 *
 * @param links The host's links on the network of the container
 * @throws {CniError} 7
 */
export function checkNotOfHost(
  host: Rtnl,
  ip: Ip,
  links: readonly Link[],
): void {
  const entry = host.route.findMatch(ip);
  if (entry !== undefined && !entry.isUnicast) {
    throw hostAddressError(host, ip, entry);
  }
  const isRouter = links.some(({ index }) =>
    host.route.listEntries({ family: ip.family, ifindex: index })
      .some(({ nextHops }) =>
        nextHops.some(({ gateway, ifindex }) =>
          ifindex === index && gateway?.equals(ip)
        )
      )
  );
  if (isRouter) throw routerAddressError(ip);
}

/** Reports whether the other end of a veth pair is in a container and has an address. */
export function peerHasAddress(host: Rtnl, end: Link, ip: Ip): boolean {
  const { kind, linkIndex: ifindex, linkNsid: nsid = -1 } = end;
  return kind === "veth" && ifindex !== undefined && nsid >= 0 &&
    hasAddress(host, { nsid, ifindex }, ip);
}

/** Builds the error for an address of the host itself. */
export function hostAddressError(
  host: Rtnl,
  ip: Ip,
  { nextHops }: RouteEntry,
): CniError {
  const name = host.link.find(nextHops[0]?.ifindex ?? 0)?.name ?? "";
  return refused(ip, `the host has it on "${name}"`);
}

/** Builds the error for the address of a router. */
export function routerAddressError(ip: Ip): CniError {
  return refused(ip, "the host has routes through it");
}

function refused(ip: Ip, why: string): CniError {
  return new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot give the container ${ip}: ${why}`,
  );
}

/** Builds the error for an address that is in use. */
export function addressInUseError(ip: Ip, user: string): CniError {
  return new CniError(
    ErrorCode.TryAgainLater,
    `Cannot give the container ${ip}: ${ip} is in use by ${user}`,
  );
}

/** Names a link of the host in errors, with whom it belongs to. */
export function describeUser({ name, alias }: Link): string {
  return `"${name}"${alias ? ` (${alias})` : ""}`;
}
