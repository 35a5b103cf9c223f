/**
 * What networks give the interfaces of containers now: addresses, routers and
 * leases, which can differ from the result of ADD.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { decodeResult } from "../../cni/result/decoding.ts";
import { findLeases, type LeaseState } from "../../ipam/dhcp/inspect.ts";
import type { PluginConf } from "../../libcni/mod.ts";
import { isUsable } from "../../plugins/parts/address/learned_addresses.ts";
import {
  readNetworkInterface,
} from "../../plugins/parts/address/network_interface.ts";
import { typeHas } from "../../plugins/parts/traits.ts";
import { listCachedPlugins } from "./ipam_claims.ts";
import type { NodeAttachment } from "./node_attachments.ts";
import { formatTime } from "../../base/time.ts";
import { ipamTypeOf } from "../../cni/config/ipam.ts";

/** What a network gives an interface now. */
export interface NetworkAddresses {
  readonly addresses: readonly NetworkAddress[];
  /** The routers of its default routes. */
  readonly routers: readonly string[];
  readonly leases: readonly LeaseView[];
}

/** An address, and for how many more seconds it is preferred and valid; null for ever. */
export interface NetworkAddress {
  /** With its prefix length. */
  readonly address: string;
  readonly preferredSeconds: number | null;
  readonly validSeconds: number | null;
}

/** A lease of the DHCP daemon. */
export type LeaseView =
  & Pick<LeaseState, "address" | "server" | "isLost">
  & {
    /** When it ends, in UTC. */
    readonly expires: string;
  };

/** Finds the plugin of an attachment whose IPAM plugin requests addresses from the network. */
export function findAsking(
  { config }: Pick<NodeAttachment, "config">,
): PluginConf | undefined {
  return listCachedPlugins(config)
    .find((conf) => typeHas(ipamTypeOf(conf.document), "asks over link"));
}

/**
 * Reads what a network gives an interface now.
 *
 * @returns Null if its addresses are not the network's, or it cannot be read
 */
export async function readNetworkAddresses(
  attachment: NodeAttachment,
): Promise<NetworkAddresses | null> {
  const conf = findAsking(attachment);
  if (conf === undefined || attachment.isLive !== true) return null;
  const found = ifPossible(() =>
    readNetworkInterface(
      attachment,
      decodeResult(attachment.result ?? {}),
      ({ given, listRouters }) => ({
        addresses: given.filter(isUsable)
          .map(({ address, lifetime }) => ({
            address: `${address}`,
            lifetime,
          })),
        routers: listRouters().map(String),
      }),
    )
  );
  if (found === undefined) return null;
  const leases = await findLeases(conf.document, attachment);
  const leftOf = (address: string): LeaseState | undefined =>
    leases.find((one) =>
      one.family === 4 && address.startsWith(`${one.address}/`)
    );
  // Its routes went with a lost lease.
  const named = leases.flatMap(({ routers, isLost }) => isLost ? [] : routers);
  return {
    addresses: found.addresses.map(({ address, lifetime }) => {
      const seconds = leftOf(address)?.leftSeconds;
      return {
        address,
        preferredSeconds: seconds ?? toSeconds(lifetime?.preferred),
        validSeconds: seconds ?? toSeconds(lifetime?.valid),
      };
    }),
    routers: [...new Set([...named, ...found.routers])],
    leases: leases.map(({ address, server, isLost, leftSeconds }) => ({
      address,
      server,
      isLost,
      expires: formatIn(leftSeconds),
    })),
  };
}

/** Source: include/net/addrconf.h `INFINITY_LIFE_TIME`. */
const FOREVER = 0xffffffff;

function toSeconds(seconds = FOREVER): number | null {
  return seconds === FOREVER ? null : seconds;
}

/** Formats the time that comes in so many seconds. */
export function formatIn(seconds: number): string {
  return formatTime(new Date(Date.now() + 1000 * seconds));
}

/** Units of lifetimes, and how many seconds they have. */
const UNITS = [["d", 86_400], ["h", 3600], ["m", 60]] as const;

/** Formats how long an address is preferred and valid: of each, what is left of the largest unit. */
export function formatLifetime(
  { preferredSeconds, validSeconds }: NetworkAddress,
): string {
  return `preferred ${format(preferredSeconds)}, valid ${format(validSeconds)}`;
}

function format(seconds: number | null): string {
  if (seconds === null) return "forever";
  const [unit, length] = UNITS.find(([, length]) => seconds >= 2 * length) ??
    ["s", 1];
  return `${Math.floor(seconds / length)}${unit}`;
}
