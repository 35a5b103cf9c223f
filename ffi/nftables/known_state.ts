/**
 * The chains and sets of a namespace as a long-running process has read them, so that
 * it need not request whole lists each time.
 *
 * The kernel notifies it of every change that any program commits, and ends each
 * commit with the generation that it has made. What is known is thus the state in a
 * generation. The kernel refuses a commit that names this generation after a
 * different commit.
 *
 * Source: net/netfilter/nf_tables_api.c `nf_tables_commit`.
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import { isErrno } from "../errno.ts";
import type { RawMessage } from "../netlink/message.ts";
import { NetlinkSocket, Protocol } from "../netlink/socket.ts";
import { NetNs } from "../netns.ts";
import type { Table } from "./change.ts";
import { partOf, splitElements } from "./element_list.ts";
import type { KnownElements } from "./known_elements.ts";
import type { KnownRules } from "./known_rules.ts";
import {
  changedPart,
  delElements,
  delRule,
  delSet,
  listedElements,
  listedRule,
  newChain,
  newElements,
  newGeneration,
  newRule,
  TableFamily,
} from "./message.ts";
import { Rule } from "./rule.ts";

/** Source: include/uapi/linux/netfilter/nfnetlink.h `NFNLGRP_NFTABLES`. */
const CHANGES_GROUP = 7;
/**
 * Room for about 2 000 changes of other programs between two calls; after more
 * changes, everything is read again.
 */
const UNREAD_BYTES = 1 << 20;
/** Generations have 32 bits, and are never 0. */
const MAX_GENERATION = 0xffff_ffff;

/** The known chains and sets of a namespace. */
export class KnownState implements Disposable {
  /** Rules of chains, by {@linkcode idOf}. */
  readonly rules: Map<string, KnownRules> = new Map();
  /** Elements of sets and maps, by {@linkcode idOf}. */
  readonly elements: Map<string, KnownElements> = new Map();
  readonly #path: string;
  #notices: NetlinkSocket | undefined;
  /** The generation of the last commit that was noted; undefined at the beginning. */
  #generation: number | undefined;
  /** Whether some changes of the next commit have been noted as well. */
  #isBetween = false;

  /** @param path Path of the namespace */
  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Notes the changes that were committed up to a generation. The first call begins
   * to listen.
   *
   * @returns Whether the state of that generation is known. If not, request the
   * generation again before the next call
   */
  isAt(generation: number): boolean {
    if (this.#notices === undefined) {
      using netns = NetNs.open(this.#path);
      this.#notices = NetlinkSocket.open(netns, Protocol.Netfilter);
      this.#notices.subscribe(CHANGES_GROUP, UNREAD_BYTES);
      return false;
    }
    this.#generation ??= generation;
    try {
      while (this.#generation !== generation || this.#isBetween) {
        const notices = this.#notices.receiveNotice();
        // The kernel has not sent all notifications yet, or the generation is
        // outdated.
        if (notices === undefined) return false;
        for (const notice of notices) this.#note(notice);
      }
      return true;
    } catch (error) {
      if (!isErrno(error, "ENOBUFS")) throw error;
      this.#startAgain();
      return false;
    }
  }

  /** Discards all chains and sets. */
  forget(): void {
    this.rules.clear();
    this.elements.clear();
  }

  /** Discards everything, because notifications were lost. */
  #startAgain(): void {
    this.forget();
    this.#generation = undefined;
    this.#isBetween = false;
    this.#notices?.takeNotices();
  }

  #note({ type, body }: RawMessage): void {
    if (type === newGeneration.type) return this.#noteGeneration(body);
    if (!NOTED.includes(type)) return;
    this.#isBetween = true;
    if (type === newChain.type) return this.#noteChain(body);
    const { header: { family }, attributes } = changedPart.decode(body);
    const { table = "", name = "" } = attributes;
    const id = idIn(family, table, name);
    if (type === delSet.type) this.elements.delete(id);
    const rules = this.rules.get(id), elements = this.elements.get(id);
    if (rules !== undefined) noteRule(rules, type, body);
    if (elements !== undefined) noteElements(elements, type, body);
  }

  #noteGeneration(body: Bytes): void {
    const { generation } = newGeneration.decode(body).attributes;
    const last = this.#generation ?? 0;
    const next = last === MAX_GENERATION ? 1 : last + 1;
    // The first generation might be the generation at which listening began.
    if (generation !== next && generation !== last) this.forget();
    this.#generation = generation;
    this.#isBetween = false;
  }

  /** Discards a chain that is created again, or gets a different name. */
  #noteChain(body: Bytes): void {
    const { header: { family }, attributes } = newChain.decode(body);
    const { table = "", name = "", handle } = attributes;
    const id = idIn(family, table, name), prefix = idIn(family, table, "");
    for (const [known, { chainHandle }] of this.rules) {
      const isSame = known === id, hasHandle = chainHandle === handle;
      if (known.startsWith(prefix) && isSame !== hasHandle) {
        this.rules.delete(known);
      }
    }
  }

  /** Stops listening. */
  [Symbol.dispose](): void {
    this.#notices?.[Symbol.dispose]();
  }
}

/** The relevant changes. The kernel reports each rule and set of a deleted table. */
const NOTED: readonly number[] = [
  newChain,
  newRule,
  delRule,
  delSet,
  newElements,
  delElements,
].map(({ type }) => type);

function noteRule(rules: KnownRules, type: number, body: Bytes): void {
  if (type === newRule.type) {
    const { bytes = new Uint8Array(0) } = listedRule.decode(body).attributes;
    rules.add(new Rule(bytes));
  }
  if (type === delRule.type) {
    rules.remove(delRule.decode(body).attributes.handle ?? 0n);
  }
}

function noteElements(known: KnownElements, type: number, body: Bytes): void {
  const { elements = new Uint8Array(0) } = listedElements.decode(body)
    .attributes;
  for (const [key, part] of splitElements(partOf(elements))) {
    if (type === newElements.type) known.add(key, part);
    if (type === delElements.type) known.remove(key);
  }
}

/** Identifies a chain or a set. */
export function idOf({ family, name: table }: Table, name: string): string {
  return idIn(TableFamily[family], table, name);
}

/** No name contains a NUL. */
function idIn(family: number, table: string, name: string): string {
  return [family, table, name].join("\0");
}
