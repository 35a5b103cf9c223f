/**
 * Chains of containers in iptables, as they are: the ports in them, and which of
 * these another container may take.
 *
 * @module
 */

import { CniError, describeError } from "../../base/error.ts";
import { NetNs } from "../../ffi/netns.ts";
import type { Cidr } from "../../net/cidr.ts";
import type { Attachment } from "../../cni/config/types.ts";
import { isNamespaceThere, isNeighbor } from "../parts/owner/element_owner.ts";
import { findVariant } from "../parts/firewall/iptables/find.ts";
import {
  commentOf,
  type Iptables,
} from "../parts/firewall/iptables/program.ts";
import {
  deleteLineOf,
  listChains,
  listRules,
  spellingOf,
} from "../parts/firewall/iptables/rules.ts";
import { parseQuoted } from "../parts/owner/comment_owner.ts";
import type { PortmapHost } from "./backend.ts";
import {
  chainAfter,
  type ChainNames,
  chainNamesOf,
  type Entry,
  readEntries,
  readPorts,
  type Section,
  sectionsOf,
} from "./iptables_rules.ts";
import {
  type ForwardedPort,
  type Forwarding,
  IPTABLES_HOSTPORTS as HOSTPORTS,
  isSameHostPort,
  portsOf,
  takenPort,
} from "./mapping.ts";

/** The forwarding to one address. */
export interface WantedForwarding {
  readonly forwarding: Forwarding;
  readonly address: Cidr;
  readonly names: ChainNames;
}

/** A container's chain as it is, and which part of it is to go. */
export interface Chain {
  readonly name: string;
  /** The rules that lead to it. */
  readonly entries: readonly Entry[];
  readonly removed: readonly Section[];
  readonly kept: readonly Section[];
}

/** Returns the chain of a container that has none. */
export function absentChain(name: string): Chain {
  return { name, entries: [], removed: [], kept: [] };
}

/** Reads a container's chain and the rules that lead to it. */
export async function readChain(
  iptables: Iptables,
  parent: string,
  name: string,
  isRemoved: (section: Section) => boolean,
): Promise<Chain> {
  const rules = await listRules(iptables, name);
  if (rules === undefined) return absentChain(name);
  const leading = (await listRules(iptables, parent) ?? [])
    .filter((rule) => rule.includes(name));
  const entries = readEntries(leading).filter(({ chain }) => chain === name);
  return { name, entries, ...splitChain(rules, isRemoved) };
}

/** Reads containers' chains, all of which go, with one run of the program. */
export async function readChains(
  iptables: Iptables,
  parent: string,
  names: ReadonlySet<string>,
): Promise<Chain[]> {
  if (names.size === 0) return [];
  const listed = await listChains(iptables, [parent, ...names]);
  const leading = (listed.get(parent) ?? [])
    .filter((rule) => names.has(chainAfter(rule)));
  const entries = Map.groupBy(readEntries(leading), ({ chain }) => chain);
  return [...names].map((name) => ({
    name,
    entries: entries.get(name) ?? [],
    ...splitChain(listed.get(name) ?? [], () => true),
  }));
}

function splitChain(
  rules: readonly string[],
  isRemoved: (section: Section) => boolean,
): Pick<Chain, "removed" | "kept"> {
  const { removed = [], kept = [] } = Object.groupBy(
    // This includes an empty chain.
    rules.length === 0 ? [EMPTY] : sectionsOf(rules),
    (section) => isRemoved(section) ? "removed" : "kept",
  );
  return { removed, kept };
}

const EMPTY: Section = { rules: [], ifName: undefined, netns: undefined };

/**
 * Returns which sections of a chain are of an attachment. Rules of the Go
 * plugin do not name their interface.
 */
export function isSectionOf(
  { ifName }: Attachment,
): (section: Section) => boolean {
  return (section) => (section.ifName ?? ifName) === ifName;
}

/**
 * Finds the other chains that have one of the wanted ports: of dead containers,
 * and of living ones, which keep it.
 *
 * @throws {CniError} 11 if another container that is alive has the very port
 */
export async function findRivals(
  iptables: Iptables,
  { forwarding, address, names }: WantedForwarding,
): Promise<{ dead: Chain[]; living: Chain[] }> {
  const { mappings, owner, conditions } = forwarding;
  const wantedPorts = mappings.map(({ hostPort }) => String(hostPort));
  const candidates = (await listRules(iptables, HOSTPORTS) ?? [])
    .filter((rule) => wantedPorts.some((port) => rule.includes(port)));
  const rivals = readEntries(candidates)
    .filter(({ chain, protocol, ports }) =>
      chain !== names.chain &&
      mappings.some((one) =>
        one.protocol === protocol && ports.includes(one.hostPort)
      )
    );
  const isSame = ({ rule }: Entry): boolean =>
    commentOf(rule).endsWith(` id: "${owner.containerId}"`);
  const isDead = (section: Section): boolean =>
    section.netns === undefined
      ? readPorts(section).every(({ target }) =>
        target.equals(address.ip) ||
        !isNeighbor(iptables.netns.path, target)
      )
      : !isNamespaceThere(section.netns);
  const wanted = portsOf({ ...forwarding, addresses: [address] });
  const own = spellingOf(conditions[address.family]);
  const dead: Chain[] = [], living: Chain[] = [];
  for (const name of new Set(rivals.map(({ chain }) => chain))) {
    const chain = await readChain(iptables, HOSTPORTS, name, isDead);
    if (chain.kept.length === 0) {
      dead.push(chain);
      continue;
    }
    living.push(chain);
    if (chain.entries.some(isSame)) continue;
    if (!chain.entries.some((entry) => entry.conditions === own)) continue;
    const port = keptPorts(chain)
      .find((port) => wanted.some(isSameHostPort(port)));
    if (port === undefined) continue;
    const [{ rule }] = chain.entries as [Entry];
    throw takenPort({ port, owner: describeOwner(commentOf(rule)) });
  }
  return { dead, living };
}

/**
 * Refuses an ADD by nftables that wants a port of iptables-nft.
 *
 * @throws {CniError} 11 if another container that is alive has the very port
 */
export async function refuseTakenPorts(
  { hostNetns, path, log, signal }: PortmapHost,
  forwarding: Forwarding,
): Promise<void> {
  const names = await chainNamesOf(forwarding.owner);
  using netns = NetNs.open(hostNetns);
  try {
    for (const address of forwarding.addresses) {
      const { family } = address;
      const program = findVariant("nft", family, path);
      if (program === undefined) continue;
      const place = { netns, family, table: "nat", signal } as const;
      const iptables = { ...place, ...program };
      await findRivals(iptables, { forwarding, address, names });
    }
  } catch (error) {
    if (error instanceof CniError) throw error;
    log.warn("Cannot read the iptables port mappings", {
      error: describeError(error),
    });
  }
}

function describeOwner(comment: string): string {
  const { network, container } = parseQuoted(comment) ?? {};
  return container === undefined
    ? comment
    : `net: ${network}, id: ${container}`;
}

/** Reports whether a mapping is of the same port of all other addresses. */
export function isForOthers(
  port: ForwardedPort,
): (one: ForwardedPort) => boolean {
  return isSameHostPort({ ...port, hostIp: undefined });
}

/** Lists the changes that remove a chain, or the part of it that goes. */
export function removalOf({ name, entries, removed, kept }: Chain): string[] {
  if (removed.length === 0) return [];
  return kept.length > 0
    ? [`:${name} - [0:0]`, ...kept.flatMap(({ rules }) => rules)]
    : [
      ...entries.map(({ rule }) => deleteLineOf(rule)),
      `-F ${name}`,
      `-X ${name}`,
    ];
}

/** Lists the ports of the part of a chain that goes. */
export function removedPorts({ removed }: Chain): ForwardedPort[] {
  return removed.flatMap(readPorts);
}

/** Lists the ports of the part of a chain that stays. */
export function keptPorts({ kept }: Chain): ForwardedPort[] {
  return kept.flatMap(readPorts);
}
