/**
 * The host's 127.0.0.0/8, which must lead to a container's ports, and no
 * container to the host's servers.
 *
 * `route_localnet` of a link lets packets of 127.0.0.0/8 pass in both
 * directions. So the table of nftables drops those that come in by the link,
 * also for ports that iptables forwards, and the setting ends with the last
 * container that needs it.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import { isWritingRefused, unlessMissing } from "../../base/files/io.ts";
import type { Difference } from "../../cni/call/differences.ts";
import {
  addNewElements,
  type Change,
  delElementsOf,
  type Element,
} from "../../ffi/nftables/change.ts";
import type { FoundElements, Nftables } from "../../ffi/nftables/mod.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Bytes } from "../../net/bytes.ts";
import type { Ip } from "../../net/ip.ts";
import { commitUnlessDisturbed } from "../parts/firewall/commit_unless_disturbed.ts";
import { type ElementOwner, ownerOf } from "../parts/owner/element_owner.ts";
import { isLacking } from "../parts/firewall/iptables/find.ts";
import { NO_NFTABLES, openNftables } from "../parts/firewall/open_nftables.ts";
import { type Owned, ownedBy } from "../parts/owner/owned.ts";
import type { PortmapHost } from "./backend.ts";
import { hasAnyGoRules } from "./go_nftables.ts";
import { type Forwarding, portsOf } from "./mapping.ts";
import {
  hasLocalnet,
  isOfOneContainer,
  localnetKeyOf,
  setLocalnet,
} from "./route_localnet.ts";
import {
  decodeLink,
  decodePort,
  decodeUsedLink,
  encodeLink,
  encodeLoopbackUser,
  isLoopbackGuarded,
  LOOPBACK_LINKS,
  LOOPBACK_USERS,
  missingLoopback,
  portMapOf,
  TABLE,
} from "./table.ts";

/** Fields of all elements. */
const ANY = [new Uint8Array(0)];
/** Label of a link that did not let 127.0.0.0/8 pass before. */
const TO_RESTORE = "restore";

/** A container, and the host's link to it that must let 127.0.0.0/8 pass. */
export interface LoopbackUser {
  /** The link's name, such as of the container's veth or its bridge. */
  readonly link: string;
  readonly container: Ip;
}

/**
 * Finds the link that must let 127.0.0.0/8 pass.
 *
 * @returns Undefined without IPv4, without masquerade or without a route
 */
export function findLoopbackUser(
  hostNetns: string,
  forwarding: Forwarding,
): LoopbackUser | undefined {
  const port = portsOf(forwarding).find(({ target }) => target.family === 4);
  if (!forwarding.snat || port === undefined) return undefined;
  using host = Rtnl.open(hostNetns);
  const link = findLink(host, port.target);
  return link === undefined ? undefined : { link, container: port.target };
}

function findLink(host: Rtnl, address: Ip): string | undefined {
  const index = host.route.findOutput(address);
  return index === undefined ? undefined : host.link.find(index)?.name;
}

/** Lists the changes that drop packets of 127.0.0.0/8 from the link. */
export function planUser(
  nftables: Nftables,
  hostNetns: string,
  { owner, link, container }: LoopbackUser & { readonly owner: ElementOwner },
): Change[] {
  const { set, key } = encodeLoopbackUser(link, container);
  const { tag, isMeant } = ownedBy(owner);
  const present = nftables.findElements(TABLE, set, [tag, key]).elements
    .filter((one) => isMeant(one) || one.key.toHex() === key.toHex());
  const { comment, label } = owner;
  return [
    ...present.length > 0 ? [delElementsOf(TABLE, set, present)] : [],
    addNewElements(TABLE, set, [{ key, comment, label }]),
    ...hasLink(nftables, link) ? [] : [
      addNewElements(TABLE, LOOPBACK_LINKS, [{
        key: encodeLink(link),
        comment,
        label: hasLocalnet(hostNetns, link) ? "" : TO_RESTORE,
      }]),
    ],
  ];
}

/** Reports whether packets of 127.0.0.0/8 from a link are dropped. */
function hasLink(nftables: Nftables, link: string): boolean {
  const key = encodeLink(link);
  return nftables.findElements(TABLE, LOOPBACK_LINKS, [key]).elements
    .some((element) => decodeLink(element.key) === link);
}

/**
 * Drops packets of 127.0.0.0/8 from the link to a container whose ports
 * iptables forwards.
 *
 * @param nftables Undefined if the kernel does not have it
 * @returns The link; undefined if it must not let such packets pass
 * @throws {NetlinkError} If the kernel refuses
 */
export async function guardLoopback(
  nftables: Nftables | undefined,
  { hostNetns, log }: PortmapHost,
  forwarding: Forwarding,
): Promise<string | undefined> {
  const user = findLoopbackUser(hostNetns, forwarding);
  if (user === undefined) return undefined;
  const owner = await ownerOf(forwarding.owner, forwarding.netns);
  try {
    if (nftables === undefined) throw new RangeError(NO_NFTABLES);
    await commitUnlessDisturbed(nftables, () => [
      ...missingLoopback(nftables),
      ...planUser(nftables, hostNetns, { ...user, owner }),
    ]);
    return user.link;
  } catch (error) {
    if (!isLacking(error)) throw error;
    log.warn("The ports are not reachable at 127.0.0.1", {
      error: describeError(error),
    });
    return undefined;
  }
}

/**
 * Lists what is missing so that 127.0.0.1 leads to ports that iptables forwards, and
 * that nothing else passes, if ADD of this plugin has taken care of that.
 */
export async function listLoopbackProblems(
  { hostNetns }: PortmapHost,
  forwarding: Forwarding,
): Promise<Difference[]> {
  const user = findLoopbackUser(hostNetns, forwarding);
  using nftables = openNftables(hostNetns);
  if (user === undefined || nftables === undefined) return [];
  const { tag, isMeant } = ownedBy(await ownerOf(forwarding.owner));
  const isOurs = nftables.findElements(TABLE, LOOPBACK_USERS, [tag]).elements
    .some(isMeant);
  const problems = isOurs ? describeGuard(nftables, user) : [];
  return [
    ...problems.map((msg) => ({ msg })),
    ...listLocalnetProblems(hostNetns, user),
  ];
}

/** Describes what is missing so that nothing else passes. */
export function describeGuard(
  nftables: Nftables,
  { link }: LoopbackUser,
): string[] {
  return [
    ...isLoopbackGuarded(nftables)
      ? []
      : ['missing hostport rules in "loopback" chain'],
    ...hasLink(nftables, link)
      ? []
      : [`missing elements in "${LOOPBACK_LINKS}" set`],
  ];
}

/** Returns a difference if 127.0.0.0/8 may not pass. */
export function listLocalnetProblems(
  netns: string,
  { link }: LoopbackUser,
): Difference[] {
  if (hasLocalnet(netns, link)) return [];
  return [{
    msg: `route_localnet of "${link}" is off`,
    expected: { kind: "sysctl", netns, key: localnetKeyOf(link), value: "1" },
  }];
}

/** What a removal of containers does to links. */
export interface LoopbackRemoval {
  readonly changes: readonly Change[];
  /** The links that no longer need to let 127.0.0.0/8 pass. */
  readonly closed: readonly Element[];
  /** Whether other containers or links stay. */
  readonly hasOthers: boolean;
}

/** What the table has of containers that leave, and of their links. */
export interface LoopbackState {
  /** Of nf_tables, when it was so. */
  readonly generation: number;
  readonly removed: readonly Element[];
  /** Whether no other container has a link in the table. */
  readonly isLast: boolean;
  /** The links to the containers that leave. */
  readonly left: readonly string[];
  /** The links that other containers need. */
  readonly needed: readonly string[];
  readonly links: FoundElements;
}

/**
 * Reads the table's elements of containers. Decodes nothing of containers
 * behind other links.
 *
 * @param generation Of nf_tables, read before
 */
export function readLoopbackState(
  nftables: Nftables,
  { tag, isMeant }: Owned,
  generation: number,
): LoopbackState {
  const find = (set: string, parts: readonly Bytes[]): FoundElements =>
    nftables.findElements(TABLE, set, parts);
  const users = find(LOOPBACK_USERS, [tag]);
  const removed = users.elements.filter(isMeant);
  const isLast = !users.hasOthers && removed.length === users.elements.length;
  const left = removed.map(({ key }) => decodeUsedLink(key));
  const others = isLast || left.length === 0
    ? []
    : find(LOOPBACK_USERS, left.map(encodeLink)).elements;
  const needed = others.filter((one) => !isMeant(one))
    .map(({ key }) => decodeUsedLink(key));
  const links = isLast || left.length > 0
    ? find(LOOPBACK_LINKS, isLast ? ANY : left.map(encodeLink))
    : { elements: [], hasOthers: true };
  return { generation, removed, isLast, left, needed, links };
}

/**
 * Lists the changes that remove containers, and the links that no other
 * container needs.
 *
 * @param busy Links that are needed nevertheless
 */
export function planLoopbackRemoval(
  { removed, isLast, left, needed, links }: LoopbackState,
  busy: ReadonlySet<string>,
): LoopbackRemoval {
  const freed = new Set(left), kept = new Set(needed).union(busy);
  const closed = links.elements.filter(({ key }) => {
    const link = decodeLink(key);
    return (isLast || freed.has(link)) && !kept.has(link);
  });
  return {
    changes: [
      ...removed.length > 0
        ? [delElementsOf(TABLE, LOOPBACK_USERS, removed)]
        : [],
      ...closed.length > 0
        ? [delElementsOf(TABLE, LOOPBACK_LINKS, closed)]
        : [],
    ],
    closed,
    hasOthers: !isLast || links.hasOthers ||
      closed.length < links.elements.length,
  };
}

/**
 * Finds the links that containers need which the set does not name: their ports
 * are the Go plugin's, or of 0.1.0. Looks, and runs programs, only if a link that
 * several containers share would be closed.
 *
 * @param state What leaves
 * @param owned The same; `removed` is the container's ID
 */
export async function findBusyLinks(
  nftables: Nftables,
  host: PortmapHost,
  state: LoopbackState,
  { removed, ...owned }: Owned & { readonly removed?: string | undefined },
): Promise<ReadonlySet<string>> {
  const left = new Set(state.left);
  const { closed } = planLoopbackRemoval(state, new Set());
  const shared = closed.map(({ key }) => decodeLink(key)).filter((link) =>
    !left.has(link) || !isOfOneContainer(host.hostNetns, link)
  );
  if (shared.length === 0) return new Set();
  if (hasAnyGoRules(nftables, removed)) return new Set(shared);
  try {
    const { listTargets } = await import("./iptables_targets.ts");
    const targets = [
      ...listOtherTargets(nftables, owned),
      ...await listTargets(host),
    ];
    using rtnl = Rtnl.open(host.hostNetns);
    return new Set(targets.flatMap((target) => findLink(rtnl, target) ?? []));
  } catch (error) {
    host.log.warn("Leaving 127.0.0.0/8 open for iptables port mappings", {
      error: describeError(error),
    });
    return new Set(shared);
  }
}

/** Lists the IPv4 addresses to which ports of the table lead that stay. */
function listOtherTargets(
  nftables: Nftables,
  { isMeant }: Pick<Owned, "isMeant">,
): Ip[] {
  return nftables.listSets(TABLE).filter((set) => portMapOf(set)?.family === 4)
    .flatMap((set) =>
      nftables.listElements(TABLE, set).filter((one) => !isMeant(one))
        .flatMap((one) => decodePort({ ...one, set })?.target ?? [])
    );
}

/**
 * Closes links before commits remove their guards: no link lets 127.0.0.0/8 pass
 * without its guard, even if this process is killed in between. After a commit that
 * fails, the links are open again.
 */
export class LinkCloser implements Disposable {
  readonly #nftables: Nftables;
  readonly #host: Pick<PortmapHost, "hostNetns" | "log">;
  /** Closed for a commit that has not been made. */
  readonly #closed = new Set<string>();
  /** Opened again after a commit that failed. */
  readonly #reopened = new Set<string>();

  /** Borrows a connection to the host's nf_tables. */
  constructor(
    nftables: Nftables,
    host: Pick<PortmapHost, "hostNetns" | "log">,
  ) {
    [this.#nftables, this.#host] = [nftables, host];
  }

  /**
   * Closes links that are to lose their guards. Those that let 127.0.0.0/8 pass before
   * they got a guard stay open.
   *
   * @param elements Of the links
   * @returns The links that cannot be closed, because this process may not write the
   *   setting: they must keep their guards
   */
  close(elements: readonly Element[]): Set<string> {
    const { hostNetns, log } = this.#host;
    const stillOpen = new Set<string>();
    for (const { key, label } of elements) {
      if (label !== TO_RESTORE) continue;
      const link = decodeLink(key);
      try {
        if (setLocalnet(hostNetns, link, false)) this.#closed.add(link);
      } catch (error) {
        if (!isWritingRefused(error)) throw error;
        log.warn("Keeping the rule that guards 127.0.0.0/8", {
          link,
          error: describeError(error),
        });
        stillOpen.add(link);
      }
    }
    return stillOpen;
  }

  /** Makes the commit for which links are closed. */
  commit(commit: () => void): void {
    try {
      commit();
    } catch (error) {
      this.#reopen();
      throw error;
    }
    this.#closed.clear();
  }

  #reopen(): void {
    for (const link of this.#closed) {
      this.#closed.delete(link);
      this.#reopened.add(link);
      // Otherwise another process has removed the guard.
      if (hasLink(this.#nftables, link)) this.#open(link);
    }
  }

  #open(link: string): void {
    unlessMissing(() => setLocalnet(this.#host.hostNetns, link, true));
  }

  /** Leaves those links open that have guards, whatever other processes did meanwhile. */
  [Symbol.dispose](): void {
    this.#reopen();
    for (const link of this.#reopened) {
      if (!hasLink(this.#nftables, link)) {
        setLocalnet(this.#host.hostNetns, link, false);
      }
      // An ADD at the same time needs it.
      if (hasLink(this.#nftables, link)) this.#open(link);
    }
  }
}
