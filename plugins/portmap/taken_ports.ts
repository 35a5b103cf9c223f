/**
 * Ports that living containers have, by whichever backend: an ADD does not take
 * these.
 *
 * @module
 */

import type { Element } from "../../ffi/nftables/change.ts";
import type { Nftables } from "../../ffi/nftables/mod.ts";
import type { IpFamily } from "../../net/ip.ts";
import {
  describeOwner,
  isAlive,
  isNeighbor,
  isSameContainer,
  ownerOf,
} from "../parts/owner/element_owner.ts";
import { nftTableOf } from "../parts/firewall/iptables/nft_table.ts";
import type { PortmapHost } from "./backend.ts";
import {
  type Forwarding,
  IPTABLES_HOSTPORTS,
  portsOf,
  takenPort,
} from "./mapping.ts";
import { decodePort, encodePort, TABLE } from "./table.ts";

/** An element, and the set or map that has it. */
export interface Found extends Element {
  readonly set: string;
}

/**
 * Refuses an element of a living owner in the place of a wanted one.
 *
 * @returns Whether the owner is alive
 * @throws {CniError} 11 if it is, and the element is a port
 */
export function isPortTaken(hostNetns: string, element: Found): boolean {
  const port = decodePort(element);
  const isInUse = element.label
    ? isAlive(element)
    : port !== undefined && isNeighbor(hostNetns, port.target);
  if (!isInUse || port === undefined) return isInUse;
  throw takenPort({ port, owner: describeOwner(element) });
}

/**
 * Refuses an ADD by iptables that wants a port of nftables.
 *
 * @throws {CniError} 11 if another container that is alive has the very port
 */
export async function refusePortsOfNftables(
  nftables: Nftables,
  { hostNetns }: PortmapHost,
  forwarding: Forwarding,
): Promise<void> {
  const sets = nftables.listSets(TABLE);
  const wanted = portsOf(forwarding)
    .filter(({ target: { family } }) => isWithoutConditions(forwarding, family))
    .map((port) => encodePort({ prefix: "" }, port))
    .filter(({ set }) => sets.includes(set));
  if (wanted.length === 0) return;
  const owner = await ownerOf(forwarding.owner);
  for (const [set, places] of Map.groupBy(wanted, ({ set }) => set)) {
    const keys = places.map(({ key }) => key);
    const wantedKeys = new Set(keys.map((key) => key.toHex()));
    nftables.findElements(TABLE, set, keys).elements
      .filter((one) =>
        wantedKeys.has(one.key.toHex()) && !isSameContainer(owner, one)
      )
      .forEach((one) => isPortTaken(hostNetns, { ...one, set }));
  }
}

/**
 * Refuses an ADD by nftables that wants a port of iptables-nft. Runs no program
 * unless iptables-nft forwards ports.
 *
 * @throws {CniError} 11 if another container that is alive has the very port
 */
export async function refusePortsOfIptables(
  nftables: Nftables,
  host: PortmapHost,
  forwarding: Forwarding,
): Promise<void> {
  const addresses = forwarding.addresses.filter(({ family }) => {
    const table = nftTableOf("nat", family);
    return isWithoutConditions(forwarding, family) &&
      nftables.listRules(table, IPTABLES_HOSTPORTS).length > 0;
  });
  if (addresses.length === 0) return;
  const { refuseTakenPorts } = await import("./iptables_chains.ts");
  await refuseTakenPorts(host, { ...forwarding, addresses });
}

/** Conditions of two backends cannot be compared. */
function isWithoutConditions(
  { conditions }: Forwarding,
  family: IpFamily,
): boolean {
  return conditions[family].length === 0;
}
