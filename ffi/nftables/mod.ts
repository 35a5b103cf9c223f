/**
 * nf_tables of a namespace: atomic changes and lists. It uses netlink and does not
 * run `nft`.
 *
 * After a deletion, closing the socket or exiting takes 5-15 ms, because the kernel
 * waits until no packet can see the deleted objects. Slower work before that hides
 * the wait.
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import { isErrno } from "../errno.ts";
import { NetlinkError } from "../netlink/error.ts";
import { acknowledgeLast, encodeRequest } from "../netlink/request.ts";
import { NetlinkSocket, Protocol } from "../netlink/socket.ts";
import { NetNs } from "../netns.ts";
import { type Change, delTableOf, type Element, type Table } from "./change.ts";
import {
  ElementList,
  type FoundElements,
  type Part,
  partOf,
  splitElements,
} from "./element_list.ts";
import { KnownElements } from "./known_elements.ts";
import { KnownRules, type RuleKey } from "./known_rules.ts";
import { idOf, KnownState } from "./known_state.ts";
import {
  beginBatch,
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
  newSet,
  newTable,
  SUBSYSTEM,
  TableFamily,
  type TableFamilyName,
} from "./message.ts";
import { type FoundRules, Rule } from "./rule.ts";

export { ElementList, type FoundElements } from "./element_list.ts";
export { type FoundRules, Rule } from "./rule.ts";

/** An existing chain. */
export interface Chain {
  /** Its name, unique in the table. */
  readonly name: string;
  /** The comment; "" for none. */
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
  /** The chain's type, such as `filter` or `nat`. */
  readonly type: string;
  /** Number of the hook. Source: include/uapi/linux/netfilter.h `NF_INET_*`. */
  readonly hook: number;
  /** Chains with a lower priority run first. */
  readonly priority: number;
  /** Whether its policy drops packets about which no rule decides. */
  readonly drops: boolean;
}

/**
 * A list with fewer bytes was not split into several messages: a message has room for
 * `NLMSG_GOODSIZE`, about 3.7 KB, and each of our elements takes less than 1 KB.
 */
const UNCUT_BYTES = 2048;
/** How often a longer list is read at most until two lists agree. */
const LIST_ATTEMPTS = 10;

/** The most idle sockets to keep for a namespace. */
const MOST_KEPT = 4;

/** The sockets and the state that are kept for a namespace. */
interface Kept {
  /** The sockets that are not in use. */
  readonly sockets: NetlinkSocket[];
  readonly known: KnownState;
  /** Names of changes that the kernel has accepted. */
  readonly accepted: Set<string>;
}

/** Kept sockets and state, by path of the namespace. */
const keptOf = new Map<string, Kept>();

const latin1 = new TextDecoder("latin1");

/** Source: include/uapi/linux/netfilter.h `NF_DROP`. */
const NF_DROP = 0;

/** An nf_tables socket, in the namespace where it was opened. */
export class Nftables implements Disposable {
  readonly #socket: NetlinkSocket;
  readonly #path: string;
  #isOpen = true;
  /** The generation that was requested last. */
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
   * Keeps the sockets of a namespace open for the next {@linkcode open}, with the
   * chains and sets that were read, in a long-running process. Closing a socket waits
   * about 10 ms until the kernel has freed deleted objects, and delays other commits.
   *
   * Source: net/netfilter/nf_tables_api.c `nft_rcv_nl_event`.
   *
   * @param path Path of the namespace, which must always lead to the same namespace
   * @returns Closes the sockets; does nothing if they were kept already
   */
  static keepOpen(path: string): Disposable {
    const stack = new DisposableStack();
    if (keptOf.has(path)) return stack;
    const known = stack.use(new KnownState(path));
    keptOf.set(path, { sockets: [], known, accepted: new Set() });
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
    try {
      this.#commit(changes, generation);
    } catch (error) {
      // The next attempt reads everything again, because the known state might be
      // wrong.
      if (!isErrno(error, "ERESTART")) {
        keptOf.get(this.#path)?.known.forget();
      }
      throw error;
    }
  }

  #commit(changes: readonly Change[], generation?: number): void {
    if (changes.length === 0) return;
    const header = { resourceId: SUBSYSTEM };
    const begin = { header, attributes: { generation } };
    this.#generation = undefined;
    this.#socket.requestAll([
      encodeRequest(beginBatch, begin),
      ...changes.map(acknowledgeLast),
      encodeRequest(endBatch, { header }),
    ]);
  }

  /**
   * Checks that the kernel accepts changes, without making them.
   *
   * @param probe Names changes that do not depend on existing objects. A process that
   * keeps the namespace tries them until they are accepted once, because the kernel
   * takes 10 ms to undo them
   * @throws {NetlinkError} If the kernel refuses a change, which the error
   * names
   */
  tryOut(changes: readonly Change[], probe?: string): void {
    const accepted = keptOf.get(this.#path)?.accepted;
    if (probe !== undefined && accepted?.has(probe)) return;
    const name = "the end of what is tried";
    const refused = { ...delTableOf({ family: "inet", name: "" }), name };
    try {
      this.#commit([...changes, refused]);
    } catch (error) {
      const isAccepted = error instanceof NetlinkError &&
        error.request === name;
      if (!isAccepted) throw error;
      if (probe !== undefined) accepted?.add(probe);
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
   * Finds the rules of a chain with a key. A process that keeps the namespace reads
   * the chain once, and is then notified of all changes.
   *
   * @param keyOf Must be the same function each time
   * @param part Bytes of all rules with the key; the key's text by default
   */
  findRules(
    table: Table,
    chain: string,
    keyOf: RuleKey,
    key: string,
    part: Bytes = new TextEncoder().encode(key),
  ): FoundRules {
    const state = this.#currentState();
    if (state !== undefined) {
      const last = state.rules.get(idOf(table, chain));
      const known = last?.isBy(keyOf)
        ? last
        : this.#learnRules(state, table, chain, keyOf);
      const rules = known.find(key);
      return { rules, hasOthers: rules.length < known.size };
    }
    const bytes = latin1.decode(part);
    const all = this.listRules(table, chain);
    const rules = all.filter((rule) =>
      rule.mentions(bytes) && keyOf(rule) === key
    );
    return { rules, hasOthers: rules.length < all.length };
  }

  /** Returns the known state, if it is of the current generation. */
  #currentState(): KnownState | undefined {
    const known = keptOf.get(this.#path)?.known;
    if (known?.isAt(this.#generation ?? this.generation())) return known;
    return known?.isAt(this.generation()) ? known : undefined;
  }

  /** Reads a chain, and keeps it unless something was committed in the meantime. */
  #learnRules(
    state: KnownState,
    table: Table,
    chain: string,
    keyOf: RuleKey,
  ): KnownRules {
    const generation = this.#generation;
    const handle = this.#handleOf(table, chain);
    const rules = this.listRules(table, chain);
    const known = new KnownRules(handle, keyOf, rules);
    if (this.generation() === generation) {
      state.rules.set(idOf(table, chain), known);
    }
    return known;
  }

  #handleOf({ family, name: table }: Table, name: string): bigint {
    const header = { family: TableFamily[family] };
    const request = { header, attributes: { table, name } };
    return unlessMissing(() => {
      const { attributes } = this.#socket.get(getChain, request, newChain);
      return attributes.handle ?? 0n;
    }, 0n);
  }

  /**
   * Lists the names of a table's sets and maps; an empty list if the table does not
   * exist.
   */
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
   * Reads the elements of a set or map; an empty list if it does not exist.
   *
   * A dump in several parts can miss elements while the kernel resizes the set's hash
   * table, so two dumps must agree. A process that keeps the namespace reads the set
   * once, and is then notified of all changes.
   */
  readElements(table: Table, set: string): ElementList {
    const state = this.#currentState();
    const known = state?.elements.get(idOf(table, set));
    if (known !== undefined) return new ElementList(known.parts);
    const generation = this.#generation;
    const parts = this.#listParts(table, set);
    if (state !== undefined && this.generation() === generation) {
      const elements = new KnownElements(parts.flatMap(splitElements));
      state.elements.set(idOf(table, set), elements);
    }
    return new ElementList(parts);
  }

  #listParts({ family, name: table }: Table, set: string): Part[] {
    const header = { family: TableFamily[family] };
    const request = { header, attributes: { table, set } };
    let before: string | undefined;
    for (let attempt = 1;; attempt++) {
      const parts = unlessMissing(
        () => this.#socket.dump(getElements, request, listedElements),
        [],
      ).map(({ attributes: { elements = new Uint8Array(0) } }) =>
        partOf(elements)
      );
      const whole = parts.map(({ text }) => text).join("");
      const isSure = whole.length < UNCUT_BYTES || whole === before;
      if (isSure || attempt === LIST_ATTEMPTS) return parts;
      before = whole;
    }
  }

  /** Closes the socket, or keeps it for the next caller; a second call does nothing. */
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

/** Returns the name of a family; undefined for an unknown family. */
export function familyOf(number: number): TableFamilyName | undefined {
  const names = Object.keys(TableFamily) as TableFamilyName[];
  return names.find((name) => TableFamily[name] === number);
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
