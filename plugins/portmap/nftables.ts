/**
 * Port mappings in a table of nftables, by netlink. `table.ts` draws the table.
 *
 * Every change is one commit, which another program's commit may precede: then
 * it is planned again.
 *
 * @module
 */

import {
  addNewElements,
  type Change,
  delElementsOf,
  delTableOf,
} from "../../ffi/nftables/change.ts";
import type { Nftables } from "../../ffi/nftables/mod.ts";
import type { Bytes } from "../../net/bytes.ts";
import type { Cidr } from "../../net/cidr.ts";
import { commitUnlessDisturbed } from "../parts/firewall/commit_unless_disturbed.ts";
import { getNftables, openNftables } from "../parts/firewall/open_nftables.ts";
import { type Owned, ownedBy, staleOf } from "../parts/owner/owned.ts";
import type { Addition, Backend, PortmapHost } from "./backend.ts";
import {
  delUnusedGroups,
  ensureConditions,
  withoutConditions,
} from "./conditions.ts";
import { delGoRules, hasGoRules } from "./go_nftables.ts";
import {
  describeGuard,
  findBusyLinks,
  findLoopbackUser,
  LinkCloser,
  listLocalnetProblems,
  type LoopbackUser,
  planLoopbackRemoval,
  planUser,
  readLoopbackState,
} from "./loopback.ts";
import {
  describePort,
  type ForwardedPort,
  type Forwarding,
  portsOf,
} from "./mapping.ts";
import {
  type ElementOwner,
  isSameContainer,
  ownerOf,
} from "../parts/owner/element_owner.ts";
import { setLocalnet } from "./route_localnet.ts";
import {
  decodePort,
  encodeMasquerade,
  encodePort,
  groupOf,
  incompleteChains,
  listNetworksWithoutRule,
  LOOPBACK_LINKS,
  LOOPBACK_USERS,
  type MapElement,
  masqueradedNetworks,
  missingGroup,
  missingMasquerade,
  missingSkeleton,
  type PortGroup,
  portIn,
  portMapOf,
  probeOfTable,
  TABLE,
} from "./table.ts";
import {
  type Found,
  isPortTaken,
  refusePortsOfIptables,
} from "./taken_ports.ts";

/** How many elements one message has: their attribute is limited to 64 KiB. */
const ELEMENTS_AT_ONCE = 150;

/** The elements and rules that an attachment needs in the table. */
interface Wanted {
  readonly owner: ElementOwner;
  readonly elements: readonly MapElement[];
  /** The networks whose connections are masqueraded. */
  readonly networks: readonly Cidr[];
  readonly groups: readonly PortGroup[];
  readonly user: LoopbackUser | undefined;
}

/** Keeps mappings in maps of its own table. */
export const nftablesBackend: Backend = {
  async add(host, forwarding): Promise<Addition> {
    using nftables = getNftables(host.hostNetns);
    await refusePortsOfIptables(nftables, host, forwarding);
    const wanted = await wantedOf(host, forwarding);
    let others: Addition = { gone: [], kept: [] };
    await commitUnlessDisturbed(nftables, () => {
      const { changes, ...plan } = planAddition(nftables, host, wanted);
      others = plan;
      return [
        ...changes,
        ...delGoRules(nftables, forwarding.owner.containerId),
      ];
    });
    await ensureConditions(nftables, host, wanted.groups);
    const { user } = wanted;
    if (user !== undefined) setLocalnet(host.hostNetns, user.link, true);
    return others;
  },

  async check(host, forwarding): Promise<void> {
    using nftables = getNftables(host.hostNetns);
    const wanted = await wantedOf(host, forwarding);
    const { Differences } = await import("../../cni/call/differences.ts");
    const differences = new Differences();
    const problems = describeProblems(nftables, wanted);
    if (problems.size > 0 && !hasGoRules(nftables, forwarding)) {
      differences.add(...problems.values().map((msg) => ({ msg })));
    }
    const { user } = wanted;
    if (user) differences.add(...listLocalnetProblems(host.hostNetns, user));
    differences.throwAny();
  },

  async del(host, attachment, named, gone): Promise<void> {
    using nftables = openNftables(host.hostNetns);
    if (nftables === undefined) return;
    const { containerId } = attachment;
    const owner = await ownerOf(attachment);
    const removed = await remove(nftables, host, {
      owned: ownedBy(owner),
      others: () => delGoRules(nftables, containerId),
      named,
      removed: containerId,
    });
    gone.push(...removed);
  },

  async gc(host, network, valid, gone): Promise<void> {
    using nftables = openNftables(host.hostNetns);
    if (nftables === undefined) return;
    const removed = await remove(nftables, host, {
      owned: await staleOf(network, valid),
      others: () => [],
      named: [],
    });
    gone.push(...removed);
  },

  async status(host): Promise<void> {
    using nftables = getNftables(host.hostNetns);
    await Promise.resolve(nftables.tryOut(probeOfTable()));
  },
};

async function wantedOf(
  host: PortmapHost,
  forwarding: Forwarding,
): Promise<Wanted> {
  const { addresses, conditions, owner, netns, snat } = forwarding;
  const ports = portsOf(forwarding);
  const reached = addresses.filter(({ ip }) =>
    ports.some(({ target }) => target.equals(ip))
  );
  const groups = await Promise.all(
    reached.map(({ family }) => groupOf(family, conditions[family])),
  );
  const pairs = (snat ? reached : []).flatMap((address) =>
    masqueradedNetworks(address, forwarding)
      .map((network) => ({ network, container: address.ip }))
  );
  const elements = [
    ...groups.flatMap((group) =>
      ports.filter(({ target: { family } }) => family === group.family)
        .map((port) => encodePort(group, port))
    ),
    ...pairs.map((pair) => encodeMasquerade(pair.network, pair.container)),
  ];
  return {
    owner: await ownerOf(owner, netns),
    // If a port is mapped twice, the first one wins.
    elements: [...byId(elements.toReversed()).values()].toReversed(),
    networks: pairs.map(({ network }) => network),
    groups,
    user: findLoopbackUser(host.hostNetns, forwarding),
  };
}

function idOf({ set, key }: MapElement): string {
  return `${set} ${key.toHex()}`;
}

function byId<T extends MapElement>(elements: readonly T[]): Map<string, T> {
  return new Map(elements.map((element) => [idOf(element), element]));
}

/** Lists the table's sets and maps, except the sets and maps of links. */
function listMaps(nftables: Nftables): string[] {
  return nftables.listSets(TABLE)
    .filter((set) => set !== LOOPBACK_LINKS && set !== LOOPBACK_USERS);
}

/** Finds the elements of a set that contain some bytes. */
function findIn(
  nftables: Nftables,
  set: string,
  parts: readonly Bytes[],
): { elements: Found[]; hasOthers: boolean } {
  const { elements, hasOthers } = nftables.findElements(TABLE, set, parts);
  return { elements: elements.map((one) => ({ ...one, set })), hasOthers };
}

/**
 * Finds the elements that matter to an attachment: its own, those in the place
 * of wanted ones, and those that map a wanted port of one address of the host.
 */
function findRelated(
  nftables: Nftables,
  { owner, elements }: Wanted,
): Found[] {
  const tag = new TextEncoder().encode(owner.instance);
  const ports = elements.filter(({ set }) => portMapOf(set) !== undefined)
    .map(portIn);
  return listMaps(nftables).flatMap((set) => {
    const keys = elements.filter((one) => one.set === set)
      .map(({ key }) => key);
    const parts = portMapOf(set)?.byAddress ? ports : keys;
    return findIn(nftables, set, [tag, ...parts]).elements;
  });
}

/**
 * Plans the changes that add the wanted elements and replace elements of
 * deleted owners.
 *
 * @throws {CniError} 11 if a port's owner is alive
 */
function planAddition(
  nftables: Nftables,
  { hostNetns }: PortmapHost,
  wanted: Wanted,
): Addition & { changes: Change[] } {
  const { owner, elements, groups, networks, user } = wanted;
  const present = findRelated(nftables, wanted);
  const own = present.filter(ownedBy(owner).isMeant);
  const others = byId(present.filter((one) => !own.includes(one)));
  const replaced: Found[] = [];
  const added = elements.filter((element) => {
    const other = others.get(idOf(element));
    if (other === undefined) return true;
    // Another network of the container forwards the port: the first one wins.
    if (isSameContainer(owner, other)) return false;
    if (isPortTaken(hostNetns, other)) return false;
    replaced.push(other);
    return true;
  });
  const { comment, label } = owner;
  const wantedIds = new Set(elements.map(idOf));
  return {
    gone: portsIn([...own, ...replaced]),
    kept: portsIn(
      [...others].filter(([id, one]) =>
        !replaced.includes(one) &&
        (wantedIds.has(id) || portMapOf(one.set)?.byAddress)
      ).map(([, one]) => one),
    ),
    changes: [
      ...missingSkeleton(nftables),
      ...groups.flatMap((group) => missingGroup(nftables, group)),
      ...missingMasquerade(nftables, networks),
      ...deletions([...own, ...replaced]),
      ...additions(added.map((one) => ({ ...one, comment, label }))),
      ...user === undefined
        ? []
        : planUser(nftables, hostNetns, { ...user, owner }),
    ],
  };
}

function portsIn(elements: readonly Found[]): ForwardedPort[] {
  return elements.flatMap((element) => decodePort(element) ?? []);
}

function additions(elements: readonly Found[]): Change[] {
  return bySet(elements).map(([set, group]) =>
    addNewElements(TABLE, set, group)
  );
}

function deletions(elements: readonly Found[]): Change[] {
  return bySet(elements).map(([set, group]) =>
    delElementsOf(TABLE, set, group)
  );
}

/** Groups elements by their sets, in as many parts as messages can hold. */
function bySet<T extends MapElement>(elements: readonly T[]): [string, T[]][] {
  return [...Map.groupBy(elements, ({ set }) => set)].flatMap(([set, all]) =>
    Array.from(
      { length: Math.ceil(all.length / ELEMENTS_AT_ONCE) },
      (_, part): [string, T[]] => [
        set,
        all.slice(part * ELEMENTS_AT_ONCE, (part + 1) * ELEMENTS_AT_ONCE),
      ],
    )
  );
}

/** A removal of elements. */
interface Removal {
  readonly owned: Owned;
  /** Lists further changes to make at the same time. */
  readonly others: () => Change[];
  /** The ports that these changes close. */
  readonly named: readonly ForwardedPort[];
  /** The ID of the only container that loses something. */
  readonly removed?: string;
}

/**
 * Removes elements, and what is not needed without them: maps and rules of
 * conditions, links that let 127.0.0.0/8 pass, and in the end the table.
 */
async function remove(
  nftables: Nftables,
  host: PortmapHost,
  { owned, others, named, removed }: Removal,
): Promise<ForwardedPort[]> {
  const { tag, isMeant } = owned;
  const before = readLoopbackState(nftables, owned, nftables.generation());
  const all = { ...owned, removed };
  const busy = await findBusyLinks(nftables, host, before, all);
  let gone: ForwardedPort[] = [];
  using closer = new LinkCloser(nftables, host);
  const closing: Pick<Nftables, "commit" | "generation"> = {
    generation: () => nftables.generation(),
    commit: (changes, generation) =>
      closer.commit(() => nftables.commit(changes, generation)),
  };
  await commitUnlessDisturbed(closing, (generation) => {
    const found = listMaps(nftables)
      .map((set) => ({ set, ...findIn(nftables, set, [tag]) }));
    const meant = found.flatMap(({ elements }) => elements.filter(isMeant));
    const used = found.filter(({ elements, hasOthers }) =>
      hasOthers || !elements.every(isMeant)
    ).map(({ set }) => set);
    const more = others();
    gone = [...portsIn(meant), ...more.length > 0 ? named : []];
    const state = generation === before.generation
      ? before
      : readLoopbackState(nftables, owned, generation);
    const stillOpen = closer.close(planLoopbackRemoval(state, busy).closed);
    const links = planLoopbackRemoval(state, busy.union(stillOpen));
    const isLast = used.length === 0 && !links.hasOthers;
    if (isLast && nftables.hasTable(TABLE)) {
      return [delTableOf(TABLE), ...more];
    }
    return [
      ...deletions(meant),
      ...links.changes,
      ...delUnusedGroups(nftables, meant.map(({ set }) => set), used),
      ...more,
    ];
  });
  return gone;
}

/** Describes what is missing in the table. */
function describeProblems(nftables: Nftables, wanted: Wanted): Set<string> {
  const { owner, elements, networks, groups, user } = wanted;
  const chains = [
    ...incompleteChains(nftables),
    ...listNetworksWithoutRule(nftables, networks).map(() => "postrouting"),
    ...withoutConditions(nftables, groups).map(() => "conditional"),
    ...groups.filter((group) => missingGroup(nftables, group).length > 0)
      .map(({ chain }) => chain),
  ];
  const found = byId(findRelated(nftables, wanted));
  const lost = elements.filter((element) =>
    !isAsWanted(found.get(idOf(element)), element, owner)
  );
  return new Set([
    ...chains.map((chain) => `missing hostport rules in "${chain}" chain`),
    ...lost.map((element) => {
      const port = decodePort(element);
      return port === undefined
        ? `missing elements in "${element.set}" set`
        : `host port ${describePort(port)} is not forwarded to ${port.target}`;
    }),
    ...user ? describeGuard(nftables, user) : [],
  ]);
}

/** Another attachment's element is as good if it is the same container's. */
function isAsWanted(
  found: Found | undefined,
  { data, set }: MapElement,
  owner: ElementOwner,
): boolean {
  if (found === undefined || portMapOf(set) === undefined) {
    return found !== undefined;
  }
  // Its label is lost if the table was restored from nft's output.
  return ownedBy(owner).isMeant(found)
    ? found.data?.toHex() === data?.toHex()
    : isSameContainer(owner, found);
}
