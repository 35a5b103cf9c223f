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
import { KnownRules, type RuleKey } from "./known_rules.ts";
import {
  beginBatch,
  delChain,
  delRule,
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

/** Some elements of a list, undecoded: the bytes, and one character for each. */
interface Part {
  readonly bytes: Bytes;
  readonly text: string;
}

/** The elements of a set or map, decoded when they are asked for. */
export class ElementList {
  readonly #parts: readonly Part[];

  /**
   * Wraps a list as the kernel sent it.
   *
   * @param parts Its messages
   */
  constructor(parts: readonly Part[]) {
    this.#parts = parts;
  }

  /** Returns all elements. */
  all(): Element[] {
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

/** Most sockets to keep of a namespace. */
const MOST_KEPT = 4;

/** What is kept of a namespace. */
interface Kept {
  /** The sockets that are not in use. */
  readonly sockets: NetlinkSocket[];
  /** Rules of chains, by {@linkcode chainId}. */
  readonly rules: Map<string, KnownRules<Rule>>;
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
   * process that stays, and what {@linkcode findRules} has found. Closing a socket
   * waits until the kernel has freed what was deleted, about 10 ms, and other
   * commits wait meanwhile.
   *
   * Source: net/netfilter/nf_tables_api.c `nft_rcv_nl_event`.
   *
   * @param path Path of the namespace, always of the same one
   * @returns Closes the sockets
   */
  static keepOpen(path: string): Disposable {
    keptOf.set(path, { sockets: [], rules: new Map() });
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
    const known = keptOf.get(this.#path)?.rules;
    const echoes = this.#socket.requestAll([
      encodeRequest(beginBatch, begin),
      ...changes.map((change) => known ? withEcho(change) : change)
        .map(acknowledgeLast),
      encodeRequest(endBatch, { header }),
    ]);
    if (known !== undefined) noteChanges(known, changes, echoes);
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
    return answer.attributes.generation ?? 0;
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
   * the kernel is asked for these rules alone, unless another program has changed
   * the chain.
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
    const uses = known && this.#usesOf(table, chain);
    if (known !== undefined) {
      if (uses === undefined) return { rules: [], hasOthers: false };
      const rules = known.mayBeSo(uses, keyOf)
        ? known.handlesOf(key).map((handle) =>
          this.#findRule(table, chain, handle)
        )
        : [undefined];
      const found = rules.filter((rule) => rule !== undefined);
      if (found.length === rules.length && found.every(isMeant)) {
        return { rules: found, hasOthers: known.size > found.length };
      }
    }
    const all = this.listRules(table, chain);
    known?.forget();
    if (uses !== undefined && this.#usesOf(table, chain) === uses) {
      known?.learn(all, keyOf, uses);
    }
    const rules = all.filter(isMeant);
    return { rules, hasOthers: rules.length < all.length };
  }

  #knownRules(table: Table, chain: string): KnownRules<Rule> | undefined {
    const all = keptOf.get(this.#path)?.rules;
    const id = chainId(table.family, table.name, chain);
    const known = all?.get(id) ?? (all && new KnownRules<Rule>());
    if (known !== undefined) all?.set(id, known);
    return known;
  }

  /** Counts a chain's rules, and the references to it; undefined without it. */
  #usesOf({ family, name: table }: Table, name: string): number | undefined {
    const header = { family: TableFamily[family] };
    const request = { header, attributes: { table, name } };
    return unlessMissing(
      () => this.#socket.get(getChain, request, newChain).attributes.use,
      undefined,
    );
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
   * the set's hash table, so two dumps must agree.
   */
  readElements({ family, name: table }: Table, set: string): ElementList {
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
      if (isSure || attempt === LIST_ATTEMPTS) return new ElementList(parts);
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

function chainId(family: string, table: string, chain: string): string {
  return `${family} ${table} ${chain}`;
}

/** Has the kernel say which handle a new rule gets. */
function withEcho(change: Change): Change {
  return change.type === newRule.type
    ? { ...change, flags: change.flags | Flag.Echo }
    : change;
}

/** Notes what a commit has done to chains whose rules are known. */
function noteChanges(
  all: Kept["rules"],
  changes: readonly Change[],
  echoes: readonly RawMessage[],
): void {
  if (all.size === 0) return;
  for (const { type, body } of changes) {
    if (type === delTable.type) {
      for (const known of all.values()) known.forget();
    } else if (type === delChain.type) {
      const { header, attributes: { table = "", name = "" } } = delChain
        .decode(body);
      const family = familyOf(header.family) ?? "";
      all.get(chainId(family, table, name))?.forget();
    } else if (type === delRule.type) {
      const { header, attributes } = delRule.decode(body);
      const { table = "", chain = "", handle } = attributes;
      const id = chainId(familyOf(header.family) ?? "", table, chain);
      if (handle === undefined) all.get(id)?.forget();
      else all.get(id)?.remove(handle);
    }
  }
  for (const { body } of echoes.filter(({ type }) => type === newRule.type)) {
    const { header, attributes: { bytes } } = listedRule.decode(body);
    if (bytes === undefined) continue;
    const { table = "", chain = "" } = ruleAttributes.decode(bytes);
    const id = chainId(familyOf(header.family) ?? "", table, chain);
    all.get(id)?.add(new Rule(bytes));
  }
}

function familyOf(number: number): TableFamilyName | undefined {
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
