/**
 * nf_tables of one namespace: atomic changes and lists. It uses netlink and
 * does not run `nft`.
 *
 * After a deletion, closing the socket or exiting takes 5-15 ms, because the
 * kernel waits until no packet can see the deleted objects. It costs nothing if
 * slower work comes in between.
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import { isErrno } from "../errno.ts";
import { splitAttributes } from "../netlink/attribute.ts";
import { NetlinkError } from "../netlink/error.ts";
import { Flag, type RawMessage } from "../netlink/message.ts";
import { acknowledgeLast, encodeRequest } from "../netlink/request.ts";
import { NetlinkSocket, Protocol } from "../netlink/socket.ts";
import { NetNs } from "../netns.ts";
import { type Change, delTableOf, type Element, type Table } from "./change.ts";
import { type Expression } from "./expression.ts";
import { KnownElements, type Part } from "./known_elements.ts";
import { KnownRules, type RuleKey } from "./known_rules.ts";
import {
  beginBatch,
  delChain,
  delElements,
  delRule,
  delSet,
  delTable,
  elementList,
  endBatch,
  getChain,
  getElements,
  getGeneration,
  getRule,
  getSet,
  getTable,
  listedElements,
  listedRule,
  newChain,
  newElements,
  newGeneration,
  newRule,
  newSet,
  newTable,
  ruleAttributes,
  SUBSYSTEM,
  TableFamily,
  type TableFamilyName,
} from "./message.ts";

/** An existing chain. */
export interface Chain {
  /** Its name, unique in the table. */
  readonly name: string;
  /** "" for none. */
  readonly comment: string;
  /** Whether it is a base chain, which the kernel calls. */
  readonly isBase: boolean;
}

/** A chain that the kernel calls, of any table. */
export interface HookedChain {
  /** Its table. */
  readonly table: Table;
  /** Its name, unique in the table. */
  readonly name: string;
  /** Such as `filter` and `nat`. */
  readonly type: string;
  /** Number of the hook. Source: include/uapi/linux/netfilter.h `NF_INET_*`. */
  readonly hook: number;
  /** Chains with a lower number come first. */
  readonly priority: number;
  /** Whether it drops packets that no rule decides about. */
  readonly drops: boolean;
}

/** An existing rule, decoded on first access. */
export class Rule {
  readonly #bytes: Bytes;
  #decoded: ReturnType<typeof ruleAttributes.decode> | undefined;

  /**
   * Wraps a rule as the kernel sent it.
   *
   * @param bytes Its attributes
   */
  constructor(bytes: Bytes) {
    this.#bytes = bytes;
  }

  /** Returns the number that identifies the rule within its table. */
  get handle(): bigint {
    return this.#attributes.handle ?? 0n;
  }

  /** Returns the comment; "" for none. */
  get comment(): string {
    return this.#attributes.comment ?? "";
  }

  /** Returns the rule's expressions. */
  get expressions(): readonly Expression[] {
    return this.#attributes.expressions?.map(toExpression) ?? [];
  }

  get #attributes(): ReturnType<typeof ruleAttributes.decode> {
    return this.#decoded ??= ruleAttributes.decode(this.#bytes);
  }

  /**
   * Reports whether the rule contains a text anywhere. In a chain of thousands
   * this finds the few rules that are worth decoding.
   *
   * @param text ASCII
   */
  mentions(text: string): boolean {
    return latin1.decode(this.#bytes).includes(text);
  }
}

/** Some rules of a chain. */
export interface FoundRules {
  /** The rules that exist. */
  readonly rules: readonly Rule[];
  /** Whether the chain has other rules, too. */
  readonly hasOthers: boolean;
}

/** Some elements of a set. */
export interface FoundElements {
  /** The elements that exist. */
  readonly elements: readonly Element[];
  /** Whether the set also contains other elements. */
  readonly hasOthers: boolean;
}

/** Compares a list from memory with what the kernel has. */
interface Recheck {
  /** Reports whether the kernel has just these elements with any of the keys. */
  readonly isSo: (
    found: readonly Element[],
    wanted: readonly Bytes[],
  ) => boolean;
  /** Reads the elements from the kernel. */
  readonly read: () => ElementList;
}

/** The elements of a set or map, decoded when they are asked for. */
export class ElementList {
  readonly #parts: readonly Part[];
  readonly #recheck: Recheck | undefined;

  /**
   * Wraps a list as the kernel sent it.
   *
   * @param parts Its messages
   * @param recheck For a list from memory, which other programs may have changed
   */
  constructor(parts: readonly Part[], recheck?: Recheck) {
    this.#parts = parts;
    this.#recheck = recheck;
  }

  /** Returns all elements. */
  all(): Element[] {
    if (this.#recheck !== undefined) return this.#recheck.read().all();
    return this.#parts.flatMap(({ bytes }) => decodeElements(bytes));
  }

  /**
   * Finds the elements that contain some bytes anywhere: in their key, value,
   * comment or label. Among thousands this decodes only the few elements that
   * matter.
   *
   * @param wanted An element with any of them is found
   */
  find(wanted: readonly Bytes[]): FoundElements {
    const found = this.#find(wanted);
    const recheck = this.#recheck;
    if (recheck === undefined || recheck.isSo(found.elements, wanted)) {
      return found;
    }
    return recheck.read().find(wanted);
  }

  #find(wanted: readonly Bytes[]): FoundElements {
    const texts = wanted.map((part) => latin1.decode(part));
    const isMeant = (text: string): boolean =>
      texts.some((part) => text.includes(part));
    const elements: Element[] = [];
    let hasOthers = false;
    for (const { bytes, text } of this.#parts) {
      if (!isMeant(text)) {
        hasOthers ||= bytes.length > 0;
        continue;
      }
      for (const { start, bytes: { length } } of splitAttributes(bytes)) {
        const end = start + ATTRIBUTE_HEADER_BYTES + length;
        if (isMeant(text.slice(start, end))) {
          elements.push(...decodeElements(bytes.subarray(start, end)));
        } else hasOthers = true;
      }
    }
    return { elements, hasOthers };
  }
}

/** Source: include/uapi/linux/netlink.h `struct nlattr`. */
const ATTRIBUTE_HEADER_BYTES = 4;
/** Source: `NFT_SET_ELEM_INTERVAL_END`. */
const INTERVAL_END = 1;
/**
 * A list with fewer bytes was not cut into several messages: one has room for
 * `NLMSG_GOODSIZE`, about 3.7 KB, and one of our elements takes less than 1 KB.
 */
const UNCUT_BYTES = 2048;
/** How often a longer one is listed at most until two lists agree. */
const LIST_ATTEMPTS = 10;

const latin1 = new TextDecoder("latin1");

/** So many elements are compared one by one; more are read again. */
const MOST_COMPARED = 16;

/** Most sockets to keep of a namespace. */
const MOST_KEPT = 4;

/** What is kept of a namespace. */
interface Kept {
  /** The sockets that are not in use. */
  readonly sockets: NetlinkSocket[];
  /** Rules of chains, by {@linkcode idOf}. */
  readonly rules: Map<string, KnownRules<Rule>>;
  /** Elements of sets, by {@linkcode idOf}. */
  readonly elements: Map<string, KnownElements>;
}

/** What is kept, by path of the namespace. */
const keptOf = new Map<string, Kept>();

/** Source: include/uapi/linux/netfilter.h `NF_DROP`. */
const NF_DROP = 0;

/** One socket to nf_tables, in the namespace where it was opened. */
export class Nftables implements Disposable {
  readonly #socket: NetlinkSocket;
  readonly #path: string;
  #isOpen = true;
  /** As it was asked for last. */
  #generation: number | undefined;

  private constructor(path: string, socket: NetlinkSocket) {
    this.#path = path;
    this.#socket = socket;
  }

  /**
   * Opens the namespace at a path.
   *
   * @throws {SyscallError} If it cannot be entered; EPROTONOSUPPORT if the
   * kernel has no netfilter netlink
   */
  static open(path: string): Nftables {
    const kept = keptOf.get(path)?.sockets.pop();
    if (kept !== undefined) return new Nftables(path, kept);
    using netns = NetNs.open(path);
    return new Nftables(path, NetlinkSocket.open(netns, Protocol.Netfilter));
  }

  /**
   * Keeps the sockets of a namespace open for the next {@linkcode open}, in a
   * process that stays, and what it has read of chains and sets. Closing a socket
   * waits until the kernel has freed what was deleted, about 10 ms, and other
   * commits wait meanwhile.
   *
   * Source: net/netfilter/nf_tables_api.c `nft_rcv_nl_event`.
   *
   * @param path Path of the namespace, always of the same one
   * @returns Closes the sockets
   */
  static keepOpen(path: string): Disposable {
    keptOf.set(path, { sockets: [], rules: new Map(), elements: new Map() });
    const stack = new DisposableStack();
    stack.defer(() => {
      const { sockets } = keptOf.get(path) ?? { sockets: [] };
      keptOf.delete(path);
      for (const socket of sockets) socket[Symbol.dispose]();
    });
    return stack;
  }

  /**
   * Commits changes, all or none.
   *
   * @param generation If given, commits only if this is still the generation
   * @throws {NetlinkError} If the kernel refuses a change, which the error
   * names; ERESTART if the generation has changed
   */
  commit(changes: readonly Change[], generation?: number): void {
    if (changes.length === 0) return;
    const header = { resourceId: SUBSYSTEM };
    const begin = { header, attributes: { generation } };
    const kept = keptOf.get(this.#path);
    const echoes = this.#socket.requestAll([
      encodeRequest(beginBatch, begin),
      ...changes.map((change) => kept ? withEcho(change) : change)
        .map(acknowledgeLast),
      encodeRequest(endBatch, { header }),
    ]);
    if (kept !== undefined) noteChanges(kept, changes, echoes, generation);
  }

  /**
   * Checks that the kernel accepts changes, without making them.
   *
   * @throws {NetlinkError} If the kernel refuses a change, which the error
   * names
   */
  tryOut(changes: readonly Change[]): void {
    const name = "the end of what is tried";
    const refused = { ...delTableOf({ family: "inet", name: "" }), name };
    try {
      this.commit([...changes, refused]);
    } catch (error) {
      if (error instanceof NetlinkError && error.request === name) return;
      throw error;
    }
  }

  /** Returns the generation: the number of commits in this namespace. */
  generation(): number {
    const answer = this.#socket.get(
      getGeneration,
      { header: {} },
      newGeneration,
    );
    return this.#generation = answer.attributes.generation ?? 0;
  }

  /** Lists the chains of a table; an empty list if the table does not exist. */
  listChains({ family, name: table }: Table): Chain[] {
    const header = { family: TableFamily[family] };
    return this.#socket.dump(getChain, { header }, newChain)
      .filter(({ attributes }) => attributes.table === table)
      .map(({ attributes: { name = "", comment = "", hook } }) => ({
        name,
        comment,
        isBase: hook !== undefined,
      }));
  }

  /**
   * Lists the base chains of all tables, except tables of the family netdev.
   */
  listHookedChains(): HookedChain[] {
    return this.#socket.dump(getChain, { header: {} }, newChain)
      .flatMap(({ header, attributes }) => {
        const { table = "", name = "", type = "", hook, policy } = attributes;
        const family = familyOf(header.family);
        if (hook === undefined || family === undefined) return [];
        if (family === "netdev") return [];
        return [{
          table: { family, name: table },
          name,
          type,
          hook: hook.number ?? 0,
          priority: hook.priority ?? 0,
          drops: policy === NF_DROP,
        }];
      });
  }

  /** Reports whether a table exists. */
  hasTable({ family, name }: Table): boolean {
    const header = { family: TableFamily[family] };
    const request = { header, attributes: { name } };
    return unlessMissing(() => {
      this.#socket.get(getTable, request, newTable);
      return true;
    }, false);
  }

  /** Reports whether a table has a chain. */
  hasChain({ family, name: table }: Table, name: string): boolean {
    const header = { family: TableFamily[family] };
    const request = { header, attributes: { table, name } };
    return unlessMissing(() => {
      this.#socket.get(getChain, request, newChain);
      return true;
    }, false);
  }

  /**
   * Lists the rules of a chain; an empty list if the chain does not exist.
   *
   * @throws {NetlinkError} EOPNOTSUPP if the kernel has no nf_tables
   */
  listRules(table: Table, chain: string): Rule[] {
    const header = { family: TableFamily[table.family] };
    const attributes = { table: table.name, chain };
    return unlessMissing(
      () => this.#socket.dump(getRule, { header, attributes }, listedRule),
      [],
    ).map(({ attributes: { bytes } }) => new Rule(bytes ?? new Uint8Array(0)));
  }

  /**
   * Finds the rules of a chain with a key. In a process that keeps the namespace,
   * the kernel is asked for these rules alone, unless another program has committed
   * anything since. No count shows that the chain is as it was: the program may have
   * added one rule and deleted another.
   *
   * @param keyOf The same function each time
   */
  findRules(
    table: Table,
    chain: string,
    keyOf: RuleKey<Rule>,
    key: string,
  ): FoundRules {
    const bytes = latin1.decode(new TextEncoder().encode(key));
    const isMeant = (rule: Rule): boolean =>
      rule.mentions(bytes) && keyOf(rule) === key;
    const known = this.#knownRules(table, chain);
    if (known === undefined) {
      const all = this.listRules(table, chain);
      const rules = all.filter(isMeant);
      return { rules, hasOthers: rules.length < all.length };
    }
    if (known.isBy(keyOf) && this.#isStillCurrent(known)) {
      const rules = known.handlesOf(key)
        .map((handle) => this.#findRule(table, chain, handle));
      const found = rules.filter((rule) => rule !== undefined);
      if (found.length === rules.length && found.every(isMeant)) {
        return { rules: found, hasOthers: known.size > found.length };
      }
    }
    const all = this.#learnRules(known, table, chain, keyOf);
    const rules = all.filter(isMeant);
    return { rules, hasOthers: rules.length < all.length };
  }

  /** Reports whether no program has changed anything since. */
  #isCurrent(
    { generation }: { readonly generation: number | undefined },
  ): boolean {
    return generation !== undefined && generation === this.#generation;
  }

  /** As {@linkcode Nftables.#isCurrent}, but asks for the generation of now. */
  #isStillCurrent(
    known: { readonly generation: number | undefined },
  ): boolean {
    return this.#isCurrent(known) ||
      known.generation !== undefined && known.generation === this.generation();
  }

  #learnRules(
    known: KnownRules<Rule>,
    table: Table,
    chain: string,
    keyOf: RuleKey<Rule>,
  ): Rule[] {
    known.forget();
    const generation = this.generation();
    const all = this.listRules(table, chain);
    if (this.generation() === generation) known.learn(all, keyOf, generation);
    return all;
  }

  #knownRules(table: Table, chain: string): KnownRules<Rule> | undefined {
    const all = keptOf.get(this.#path)?.rules;
    const id = idOf(table.family, table.name, chain);
    const known = all?.get(id) ?? (all && new KnownRules<Rule>());
    if (known !== undefined) all?.set(id, known);
    return known;
  }

  #findRule(
    { family, name: table }: Table,
    chain: string,
    handle: bigint,
  ): Rule | undefined {
    const header = { family: TableFamily[family] };
    const request = { header, attributes: { table, chain, handle } };
    return unlessMissing(() => {
      const answer = this.#socket.get(getRule, request, listedRule);
      return new Rule(answer.attributes.bytes ?? new Uint8Array(0));
    }, undefined);
  }

  /** Lists the names of a table's sets and maps; an empty list if it does not exist. */
  listSets({ family, name: table }: Table): string[] {
    const header = { family: TableFamily[family] };
    const request = { header, attributes: { table } };
    return unlessMissing(
      () => this.#socket.dump(getSet, request, newSet),
      [],
    ).map(({ attributes: { name = "" } }) => name);
  }

  /** Lists the elements of a set or map; an empty list if it does not exist. */
  listElements(table: Table, set: string): Element[] {
    return this.readElements(table, set).all();
  }

  /** Finds elements of a set or map as {@linkcode ElementList.find} does. */
  findElements(
    table: Table,
    set: string,
    parts: readonly Bytes[],
  ): FoundElements {
    return this.readElements(table, set).find(parts);
  }

  /**
   * Reads the elements of a set or map; there are none if it does not exist.
   *
   * A dump in several parts may silently miss elements while the kernel resizes
   * the set's hash table, so two dumps must agree. A process that keeps the
   * namespace reads them from memory, unless another program has changed the set.
   */
  readElements(table: Table, set: string): ElementList {
    const all = keptOf.get(this.#path)?.elements;
    if (all === undefined) return new ElementList(this.#listParts(table, set));
    const id = idOf(table.family, table.name, set);
    const known = all.get(id) ?? new KnownElements();
    all.set(id, known);
    const read = (): ElementList => this.#learnElements(known, table, set);
    if (!known.isLearned) return read();
    if (this.#isCurrent(known)) return new ElementList(known.parts);
    if (this.#countElements(table, set) !== known.size) return read();
    const isSo: Recheck["isSo"] = (found, wanted) =>
      found.length + wanted.length <= MOST_COMPARED &&
      found.every((one) =>
        isSame(one, this.#findElement(table, set, one.key))
      ) &&
      this.#lacks(table, set, found, wanted);
    return new ElementList(known.parts, { isSo, read });
  }

  #learnElements(
    known: KnownElements,
    table: Table,
    set: string,
  ): ElementList {
    known.forget();
    const generation = this.generation();
    const parts = this.#listParts(table, set);
    if (this.generation() === generation) {
      const elements = parts.flatMap(splitElements);
      known.learn(elements, generation);
    }
    return new ElementList(parts);
  }

  /** Reports whether a set has no other element with one of the keys among some bytes. */
  #lacks(
    table: Table,
    set: string,
    found: readonly Element[],
    wanted: readonly Bytes[],
  ): boolean {
    const keys = new Set(found.map(({ key }) => key.toHex()));
    const length = this.#keyLengthOf(table, set);
    return wanted.every((part) =>
      part.length !== length || keys.has(part.toHex()) ||
      this.#findElement(table, set, part) === undefined
    );
  }

  #findSet(
    { family, name: table }: Table,
    name: string,
  ):
    | Partial<Record<"count" | "keyLength", number | undefined>>
    | undefined {
    const header = { family: TableFamily[family] };
    const request = { header, attributes: { table, name } };
    return unlessMissing(
      () => this.#socket.get(getSet, request, newSet).attributes,
      undefined,
    );
  }

  /** Counts the elements; undefined if the kernel does not tell. */
  #countElements(table: Table, set: string): number | undefined {
    const found = this.#findSet(table, set);
    return found === undefined ? 0 : found.count;
  }

  #keyLengthOf(table: Table, set: string): number | undefined {
    return this.#findSet(table, set)?.keyLength;
  }

  #findElement(
    { family, name: table }: Table,
    set: string,
    key: Bytes,
  ): Element | undefined {
    const header = { family: TableFamily[family] };
    const elements = [{ key: { value: key } }];
    const request = { header, attributes: { table, set, elements } };
    return unlessMissing(() => {
      const { attributes } = this.#socket
        .get(getElements, request, listedElements);
      return decodeElements(attributes.elements ?? new Uint8Array(0))[0];
    }, undefined);
  }

  #listParts({ family, name: table }: Table, set: string): Part[] {
    const header = { family: TableFamily[family] };
    const request = { header, attributes: { table, set } };
    let before: string | undefined;
    for (let attempt = 1;; attempt++) {
      const parts = unlessMissing(
        () => this.#socket.dump(getElements, request, listedElements),
        [],
      ).map(({ attributes: { elements: bytes = new Uint8Array(0) } }) => ({
        bytes,
        text: latin1.decode(bytes),
      }));
      const whole = parts.map(({ text }) => text).join("");
      const isSure = whole.length < UNCUT_BYTES || whole === before;
      if (isSure || attempt === LIST_ATTEMPTS) return parts;
      before = whole;
    }
  }

  /** Closes the socket, or keeps it for the next; a second call does nothing. */
  [Symbol.dispose](): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    const { sockets } = keptOf.get(this.#path) ?? {};
    if (sockets === undefined || sockets.length === MOST_KEPT) {
      return this.#socket[Symbol.dispose]();
    }
    this.#socket.dropAnswers();
    sockets.push(this.#socket);
  }
}

/** Identifies a chain or a set. */
function idOf(family: string, table: string, name: string): string {
  return `${family} ${table} ${name}`;
}

/** Has the kernel say which handle a new rule gets. */
function withEcho(change: Change): Change {
  return change.type === newRule.type
    ? { ...change, flags: change.flags | Flag.Echo }
    : change;
}

/** Notes what a commit has done to what is known. */
function noteChanges(
  { rules, elements }: Kept,
  changes: readonly Change[],
  echoes: readonly RawMessage[],
  generation: number | undefined,
): void {
  if (rules.size + elements.size === 0) return;
  for (const change of changes) noteChange(rules, elements, change);
  for (const { body } of echoes.filter(({ type }) => type === newRule.type)) {
    const { header, attributes: { bytes } } = listedRule.decode(body);
    if (bytes === undefined) continue;
    const { table = "", chain = "" } = ruleAttributes.decode(bytes);
    rules.get(idOf(familyOf(header.family) ?? "", table, chain))
      ?.add(new Rule(bytes));
  }
  for (const known of [...rules.values(), ...elements.values()]) {
    if (known.generation !== generation) known.generation = undefined;
    else if (generation !== undefined) {
      known.generation = generation === MAX_GENERATION ? 1 : generation + 1;
    }
  }
}

/** Generations have 32 bits, and are never 0. */
const MAX_GENERATION = 0xffff_ffff;

function noteChange(
  rules: Kept["rules"],
  elements: Kept["elements"],
  { type, body }: Change,
): void {
  const idIn = (number: number, table = "", name = ""): string =>
    idOf(familyOf(number) ?? "", table, name);
  switch (type) {
    case delTable.type: {
      const { header, attributes: { name } } = delTable.decode(body);
      const prefix = idIn(header.family, name, "");
      for (const [id, known] of [...rules, ...elements]) {
        if (id.startsWith(prefix)) known.clear();
      }
      return;
    }
    case delChain.type: {
      const { header, attributes: { table, name } } = delChain.decode(body);
      return rules.get(idIn(header.family, table, name))?.forget();
    }
    case delRule.type: {
      const { header, attributes } = delRule.decode(body);
      const { table, chain, handle } = attributes;
      const known = rules.get(idIn(header.family, table, chain));
      if (handle === undefined) known?.forget();
      else known?.remove(handle);
      return;
    }
    case delSet.type: {
      const { header, attributes: { table, name } } = delSet.decode(body);
      return elements.get(idIn(header.family, table, name))?.clear();
    }
    case newElements.type:
    case delElements.type: {
      const { header, attributes } = newElements.decode(body);
      const { table, set, elements: changed = [] } = attributes;
      const known = elements.get(idIn(header.family, table, set));
      for (const element of known === undefined ? [] : changed) {
        const key = element.key?.value ?? new Uint8Array(0);
        if (type === delElements.type) known?.remove(key);
        else known?.add(key, partOf(elementList.encode([element])));
      }
    }
  }
}

function partOf(bytes: Bytes): Part {
  return { bytes, text: latin1.decode(bytes) };
}

/** Splits what the kernel lists at once. */
function splitElements({ bytes }: Part): [key: Bytes, part: Part][] {
  return [...splitAttributes(bytes)].map(({ start, bytes: { length } }) => {
    const end = start + ATTRIBUTE_HEADER_BYTES + length;
    const part = partOf(bytes.slice(start, end));
    const [element] = decodeElements(part.bytes);
    return [element?.key ?? new Uint8Array(0), part];
  });
}

function isSame(one: Element, other: Element | undefined): boolean {
  return other !== undefined && one.comment === other.comment &&
    one.label === other.label && one.verdict === other.verdict &&
    one.data?.toHex() === other.data?.toHex();
}

/** Returns the name of a family; undefined for an unknown one. */
export function familyOf(number: number): TableFamilyName | undefined {
  const names = Object.keys(TableFamily) as TableFamilyName[];
  return names.find((name) => TableFamily[name] === number);
}

/** Some expressions have no data, such as the one that masquerades. */
function toExpression(
  { name = "", data = new Uint8Array(0) }: {
    readonly [K in keyof Expression]?: Expression[K] | undefined;
  },
): Expression {
  return { name, data };
}

function decodeElements(bytes: Bytes): Element[] {
  return elementList.decode(bytes).map(({ key, data, texts, flags = 0 }) => ({
    key: key?.value ?? new Uint8Array(0),
    verdict: data?.verdict?.code,
    ...data?.verdict?.chain && { chain: data.verdict.chain },
    ...(flags & INTERVAL_END) !== 0 && { isEnd: true },
    comment: texts?.comment ?? "",
    ...data?.value && { data: data.value },
    ...texts?.label && { label: texts.label },
  }));
}

/** Returns the result of `ask`, or `otherwise` if it fails with ENOENT. */
function unlessMissing<T>(ask: () => T, otherwise: T): T {
  try {
    return ask();
  } catch (error) {
    if (isErrno(error, "ENOENT")) return otherwise;
    throw error;
  }
}
