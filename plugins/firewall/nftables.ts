/**
 * The firewall as a table of nftables:
 *
 * ```
 * table inet cni_firewall {
 *   set addresses4 { type ipv4_addr; elements = { 10.1.2.5 comment "<attachment>", … } }
 *   set addresses6 { type ipv6_addr; … }
 *   set further_owners4 { type ifname . ipv4_addr; elements = { "<hash>" . 10.1.2.5 comment "<attachment>", … } }
 *   set further_owners6 { type ifname . ipv6_addr; … }
 *   set bridges { type ifname; elements = { "cni0", … } }
 *   map within_bridge { type ifname . ifname : verdict
 *     elements = { "cni0" . "cni0" : return, "cni1" . "cni1" : drop }
 *   }
 *   chain admin {}
 *   chain ingress_policy {
 *     iifname . oifname vmap @within_bridge
 *     iifname @bridges oifname @bridges drop
 *   }
 *   chain forward { type filter hook forward priority filter
 *     jump ingress_policy
 *     jump admin
 *     ip saddr @addresses4 accept
 *     ip daddr @addresses4 ct state established,related accept
 *     …
 *   }
 * }
 * ```
 *
 * The number of rules is constant: an attachment adds its addresses to a set.
 * The comments of the elements name the attachment, so DEL and GC find its
 * addresses without a result. The other backends add the sets alone, as a
 * record of who owns which address: rules of the Go plugin's form have no room
 * for it.
 *
 * An address in several living containers has an owner in its element, and the
 * others in `further_owners`. No container can take the rules of another one:
 * an address keeps them until its last owner is deleted.
 *
 * The last DEL removes the table, unless chain `admin` has rules.
 *
 * @module
 */

import {
  addChain,
  addElements,
  addSet,
  addTable,
  appendRule,
  type Change,
  delElementsOf,
  delSetOf,
  delTableOf,
  type Element,
  flushChain,
  joinValues,
  type NewSet,
  type Table,
} from "../../ffi/nftables/change.ts";
import {
  comparedValues,
  decide,
  decideByLinks,
  encodeName,
  type Expression,
  jumpTo,
  matchAddressIn,
  matchEstablished,
  matchFamily,
  matchLinksIn,
  verdictOf,
  VERDICTS,
} from "../../ffi/nftables/expression.ts";
import type { ElementList, Nftables } from "../../ffi/nftables/mod.ts";
import type { Bytes } from "../../net/bytes.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import { throwDifferences } from "../parts/link/check_link.ts";
import {
  type ElementOwner,
  isAlive,
  isInSameNamespace,
} from "../parts/owner/element_owner.ts";
import { commitUnlessDisturbed } from "../parts/firewall/commit_unless_disturbed.ts";
import {
  instanceIn,
  type MasqueradeNames,
} from "../parts/firewall/masquerade/names.ts";
import { getNftables, openNftables } from "../parts/firewall/open_nftables.ts";
import { type Owned, ownedBy } from "../parts/owner/owned.ts";
import type { Backend, IngressPolicy } from "./backend.ts";

const TABLE: Table = { family: "inet", name: "cni_firewall" };
const TABLE_COMMENT = "Firewall for CNI plugins";
const SETS: Readonly<Record<IpFamily, NewSet>> = {
  4: { name: "addresses4", key: "ipv4_addr" },
  6: { name: "addresses6", key: "ipv6_addr" },
};
const FURTHER_OWNERS: Readonly<Record<IpFamily, NewSet>> = {
  4: { name: "further_owners4", key: "ifname . ipv4_addr" },
  6: { name: "further_owners6", key: "ifname . ipv6_addr" },
};
const FURTHER = Object.values(FURTHER_OWNERS);
const RECORDS = [...Object.values(SETS), ...FURTHER];
const FAMILIES: readonly IpFamily[] = [4, 6];
/** Bytes of a hash in the key of a further owner, with the final NUL. */
const OWNER_BYTES = 16;
const BRIDGES: NewSet = { name: "bridges", key: "ifname" };
const WITHIN_BRIDGE: NewSet = {
  name: "within_bridge",
  key: "ifname . ifname",
  isVerdictMap: true,
};
const ADMIN = "admin", POLICY = "ingress_policy", FORWARD = "forward";
/** Source: include/uapi/linux/netfilter_ipv4.h `NF_IP_PRI_FILTER`. */
const FILTER = { type: "filter", hook: "forward", priority: 0 } as const;

/** The rules of each chain. */
const RULES: Readonly<Record<string, readonly (readonly Expression[])[]>> = {
  [POLICY]: [
    decideByLinks(WITHIN_BRIDGE.name),
    [...matchLinksIn(BRIDGES.name), decide("drop")],
  ],
  [FORWARD]: [
    [jumpTo(POLICY)],
    [jumpTo(ADMIN)],
    ...FAMILIES.flatMap((family) => [
      [
        ...matchFamily(family),
        ...matchAddressIn("source", family, SETS[family].name),
        decide("accept"),
      ],
      [
        ...matchFamily(family),
        ...matchAddressIn("destination", family, SETS[family].name),
        ...matchEstablished(),
        decide("accept"),
      ],
    ]),
  ],
};

/** An element, and the set that has it. */
interface Placed extends Element {
  readonly set: string;
}

/** The backend of nftables. */
export const nftablesBackend: Backend = {
  async add({ hostNetns }, { owner, addresses, policy }): Promise<void> {
    using nftables = getNftables(hostNetns);
    await commitUnlessDisturbed(nftables, (generation) => [
      ...sharedChanges(nftables),
      ...recordChanges(readRecords(nftables, generation), owner, addresses),
      ...policy === undefined ? [] : policyChanges(nftables, policy),
    ]);
  },

  async check({ hostNetns }, { owner, addresses, policy }): Promise<void> {
    using nftables = getNftables(hostNetns);
    const isOwn = setOf(listRecorded(readRecords(nftables), ownedBy(owner)));
    const missing = addresses.filter((ip) => !isOwn(ip));
    const chains = Object.keys(RULES).filter((one) => !isWhole(nftables, one));
    const lacksPolicy = policy !== undefined && !isEnforced(nftables, policy);
    const absent = [
      ...missing.length === 0
        ? []
        : [`${missing.join(", ")} in table inet ${TABLE.name}`],
      ...chains.map((chain) =>
        `rules of chain ${chain} of table inet ${TABLE.name}`
      ),
      ...lacksPolicy ? [`ingress policy of "${policy.bridge}"`] : [],
    ];
    throwDifferences(
      absent.map((what) => ({ msg: `expected ${what} not found` })),
    );
    await Promise.resolve();
  },

  // The caller removes the record, which has the addresses.
  async del({ hostNetns }, _addresses, link): Promise<void> {
    if (link === undefined) return;
    using nftables = openNftables(hostNetns);
    if (nftables === undefined) return;
    await commitUnlessDisturbed(nftables, () => policyRemoval(nftables, link));
  },

  async status({ hostNetns }): Promise<void> {
    using nftables = getNftables(hostNetns);
    const table = { ...TABLE, name: `${TABLE.name}_probe` };
    await Promise.resolve(nftables.tryOut(skeletonOf(table)));
  },
};

/**
 * Records an owner of addresses. The addresses of an earlier ADD are dropped.
 *
 * @param known Records that have been read before
 */
export async function recordOwner(
  nftables: Nftables,
  owner: ElementOwner,
  addresses: readonly Ip[],
  known: Records,
): Promise<void> {
  await commitUnlessDisturbed(nftables, (generation) => [
    addTable(TABLE, TABLE_COMMENT),
    ...Object.values(SETS).map((set) => addSet(TABLE, set)),
    ...recordChanges(
      recordsOf(nftables, known, generation),
      owner,
      addresses,
    ),
  ]);
}

/** The records of all owners, as they were in a generation of nf_tables. */
export interface Records {
  readonly generation: number;
  readonly sets: ReadonlyMap<string, ElementList>;
}

/** Reads all records. */
export function readRecords(
  nftables: Nftables,
  generation: number = nftables.generation(),
): Records {
  const sets = new Map(
    RECORDS.map(({ name }) => [name, nftables.readElements(TABLE, name)]),
  );
  return { generation, sets };
}

/** Returns the records if they are of a generation; reads them anew otherwise. */
function recordsOf(
  nftables: Nftables,
  known: Records | undefined,
  generation: number,
): Records {
  return known?.generation === generation
    ? known
    : readRecords(nftables, generation);
}

/** Lists the recorded addresses of some owners. */
export function listRecorded(
  records: Records,
  { tag, isMeant }: Owned,
): Ip[] {
  return findAll(records, [tag]).elements.filter(isMeant).map(addressOf);
}

/**
 * Lists the addresses, of the given ones, that are recorded for other living
 * owners.
 */
export function listForeign(
  records: Records,
  { isMeant }: Owned,
  addresses: readonly Ip[],
): Ip[] {
  return findOf(records, addresses)
    .filter((one) => !isMeant(one) && isAlive(one)).map(addressOf);
}

/**
 * Reports whether each of some attachments has a record.
 *
 * @param tag Of their network
 */
export function areRecorded(
  records: Records,
  { tag }: Pick<Owned, "tag">,
  attachments: readonly Pick<MasqueradeNames, "instance">[],
): boolean {
  const { elements } = findAll(records, [tag]);
  const recorded = new Set(elements.map(instanceIn));
  return attachments.every(({ instance }) => recorded.has(instance));
}

/**
 * Removes the records of some owners, and the table if no others are left.
 *
 * @param addresses Addresses without a living owner, whose records go, too
 * @param known Records that have been read before
 */
export async function forgetOwners(
  nftables: Nftables,
  { tag, isMeant }: Owned,
  addresses: readonly Ip[] = [],
  known?: Records,
): Promise<void> {
  await commitUnlessDisturbed(nftables, (generation) => {
    const records = recordsOf(nftables, known, generation);
    const parts = [tag, ...addresses.map(keyOf)];
    const { elements, hasOthers } = findAll(records, parts);
    const isGone = setOf(addresses);
    const gone = elements.filter((one) =>
      isMeant(one) || isGone(addressOf(one))
    );
    const isLast = gone.length > 0 && gone.length === elements.length &&
      !hasOthers && nftables.listRules(TABLE, ADMIN).length === 0;
    return isLast ? [delTableOf(TABLE)] : removal(records, gone);
  });
}

/** Lists the changes that give a table its sets and chains. */
function skeletonOf(table: Table): Change[] {
  return [
    addTable(table, TABLE_COMMENT),
    ...[...Object.values(SETS), BRIDGES, WITHIN_BRIDGE]
      .map((set) => addSet(table, set)),
    addChain(table, ADMIN),
    addChain(table, POLICY),
    addChain(table, FORWARD, FILTER),
  ];
}

/** Lists the changes that add what all attachments share, or repair it. */
function sharedChanges(nftables: Nftables): Change[] {
  const broken = Object.keys(RULES).filter((one) => !isWhole(nftables, one));
  if (broken.length === 0) return [];
  return [
    ...skeletonOf(TABLE),
    ...broken.flatMap((chain) => [
      flushChain(TABLE, chain),
      ...(RULES[chain] ?? []).map((expressions) =>
        appendRule(TABLE, { chain, expressions })
      ),
    ]),
  ];
}

/** Reports whether a chain has its rules and no others. */
function isWhole(nftables: Nftables, chain: string): boolean {
  const present = nftables.listRules(TABLE, chain)
    .map(({ expressions }) => shapeOf(expressions));
  return present.join() === (RULES[chain] ?? []).map(shapeOf).join();
}

/** Returns what distinguishes the rules of the table. */
function shapeOf(expressions: readonly Expression[]): string {
  const values = comparedValues(expressions).map((value) => value.toHex());
  const { code, chain } = verdictOf(expressions) ?? {};
  const names = expressions.map(({ name }) => name);
  return [...names, ...values, code, chain].join(" ");
}

function recordChanges(
  records: Records,
  owner: ElementOwner,
  addresses: readonly Ip[],
): Change[] {
  const { comment, label } = owner, own = ownedBy(owner);
  const parts = [own.tag, ...addresses.map(keyOf)];
  const isAdded = setOf(addresses);
  const present = findAll(records, parts).elements.filter((one) =>
    own.isMeant(one) || isAdded(addressOf(one))
  );
  const kept = new Set(
    present.filter((one) =>
      !own.isMeant(one) && isAlive(one) && !isInSameNamespace(one, owner)
    ),
  );
  const held = [...kept].map(addressOf), isHeld = setOf(held);
  const families = new Set(held.map(({ family }) => family));
  return [
    ...removal(records, present.filter((one) => !kept.has(one))),
    ...[...families].map((family) => addSet(TABLE, FURTHER_OWNERS[family])),
    ...additions(addresses.map((ip) => ({
      ...placeOf(ip, isHeld(ip) ? owner : undefined),
      comment,
      label,
    }))),
  ];
}

/** Returns set and key of an address, or of a further owner of it. */
function placeOf(
  ip: Ip,
  further?: Pick<ElementOwner, "instance">,
): Pick<Placed, "set" | "key"> {
  const { family } = ip;
  if (further === undefined) return { set: SETS[family].name, key: keyOf(ip) };
  const name = encodeName(further.instance.slice(1 - OWNER_BYTES));
  const key = joinValues(name, keyOf(ip));
  return { set: FURTHER_OWNERS[family].name, key };
}

/**
 * Lists the changes that remove records. An address whose owner is removed gets
 * a further owner of it, if there is one.
 */
function removal(records: Records, gone: readonly Placed[]): Change[] {
  const freed = gone.filter(({ set }) => isOfAddresses(set)).map(addressOf);
  const keys = new Set(gone.map(idOf));
  const heirs = findOf(records, freed, FURTHER)
    .filter((one) => !keys.has(idOf(one)));
  const heirsOf = Map.groupBy(heirs, (one) => String(addressOf(one)));
  const firsts = freed.flatMap((ip) => heirsOf.get(String(ip))?.[0] ?? []);
  return [
    ...deletions(records, [...gone, ...firsts]),
    ...additions(firsts.map((one) => ({ ...one, ...placeOf(addressOf(one)) }))),
  ];
}

function policyChanges(
  nftables: Nftables,
  { bridge, isolated }: IngressPolicy,
): Change[] {
  const key = new Uint8Array([...encodeName(bridge), ...encodeName(bridge)]);
  const verdict = isolated ? VERDICTS.drop : VERDICTS.return;
  const earlier = nftables.listElements(TABLE, WITHIN_BRIDGE.name)
    .filter((one) => one.key.toHex() === key.toHex());
  return [
    ...earlier.length > 0
      ? [delElementsOf(TABLE, WITHIN_BRIDGE.name, earlier)]
      : [],
    addElements(TABLE, WITHIN_BRIDGE.name, [{ key, verdict, comment: "" }]),
    addElements(TABLE, BRIDGES.name, [{
      key: encodeName(bridge),
      comment: "",
    }]),
  ];
}

/** Lists the changes that remove the policy of a link. */
function policyRemoval(nftables: Nftables, link: string): Change[] {
  const name = encodeName(link).toHex();
  return [BRIDGES, WITHIN_BRIDGE].flatMap((set) => {
    const meant = nftables.listElements(TABLE, set.name)
      .filter(({ key }) => key.toHex().startsWith(name));
    return meant.length > 0 ? [delElementsOf(TABLE, set.name, meant)] : [];
  });
}

function isEnforced(
  nftables: Nftables,
  { bridge, isolated }: IngressPolicy,
): boolean {
  const name = encodeName(bridge).toHex();
  const within = nftables.listElements(TABLE, WITHIN_BRIDGE.name)
    .find(({ key }) => key.toHex() === name + name);
  const verdict = isolated ? VERDICTS.drop : VERDICTS.return;
  return within?.verdict === verdict &&
    nftables.listElements(TABLE, BRIDGES.name)
      .some(({ key }) => key.toHex() === name);
}

/** Finds the records of some sets that contain some bytes. */
function findAll(
  { sets }: Records,
  parts: readonly Bytes[],
  among: readonly NewSet[] = RECORDS,
): { elements: Placed[]; hasOthers: boolean } {
  const found = among.flatMap(({ name: set }) => {
    const list = sets.get(set)?.find(parts);
    return list === undefined ? [] : [{
      elements: list.elements.map((one) => ({ ...one, set })),
      hasOthers: list.hasOthers,
    }];
  });
  return {
    elements: found.flatMap(({ elements }) => elements),
    hasOthers: found.some(({ hasOthers }) => hasOthers),
  };
}

/** Finds the records of some addresses. */
function findOf(
  records: Records,
  addresses: readonly Ip[],
  among?: readonly NewSet[],
): Placed[] {
  const isWanted = setOf(addresses);
  return findAll(records, addresses.map(keyOf), among).elements
    .filter((one) => isWanted(addressOf(one)));
}

/** Lists the changes that delete records, and a set of further owners if empty. */
function deletions(
  { sets }: Records,
  elements: readonly Placed[],
): Change[] {
  return perSet(elements, (table, set, own) => {
    const isLast = !isOfAddresses(set) &&
      sets.get(set)?.all().length === own.length;
    return isLast ? delSetOf(TABLE, set) : delElementsOf(table, set, own);
  });
}

function additions(elements: readonly Placed[]): Change[] {
  return perSet(elements, addElements);
}

/** Makes a change for each set that has some of the elements. */
function perSet(
  elements: readonly Placed[],
  change: (table: Table, set: string, elements: readonly Placed[]) => Change,
): Change[] {
  return [...Map.groupBy(elements, ({ set }) => set)]
    .map(([set, own]) => change(TABLE, set, own));
}

function idOf({ set, key }: Placed): string {
  return `${set} ${key.toHex()}`;
}

/** Reports whether packets are compared with a set. */
function isOfAddresses(set: string): boolean {
  return FAMILIES.some((family) => SETS[family].name === set);
}

function keyOf(ip: Ip): Bytes {
  return new Uint8Array(ip.toBytes());
}

function addressOf({ set, key }: Placed): Ip {
  return Ip.fromBytes(isOfAddresses(set) ? key : key.slice(OWNER_BYTES));
}

/** Returns a test whether an address is one of these. */
function setOf(addresses: readonly Ip[]): (ip: Ip) => boolean {
  const texts = new Set(addresses.map(String));
  return (ip) => texts.has(String(ip));
}
