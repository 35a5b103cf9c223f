/**
 * Orphaned elements of nftables sets. They are found by the comments that name their
 * owners.
 *
 * @module
 */

import type {
  Orphan,
  OrphanFinder,
  OrphanSearch,
} from "../../../metadata/orphans.ts";
import type { Plugin } from "../../../cni/plugin.ts";
import { dispatch } from "../../../cni/skel.ts";
import {
  type Change,
  delElementsOf,
  type Element,
  type Table,
} from "../../../ffi/nftables/change.ts";
import { comparedValues } from "../../../ffi/nftables/expression.ts";
import type { Nftables, Rule } from "../../../ffi/nftables/mod.ts";
import type { Bytes } from "../../../net/bytes.ts";
import { Ip } from "../../../net/ip.ts";
import { commitUnlessDisturbed } from "./commit_unless_disturbed.ts";
import { namesOf } from "./masquerade/names.ts";
import { openNftables } from "./open_nftables.ts";
import {
  type CommentOwner,
  parseInstance,
  uniqueIps,
} from "../owner/comment_owner.ts";

/**
 * Returns a finder of elements in a plugin's table. It finds none if the kernel lacks
 * nf_tables.
 *
 * @param load Loads the plugin, whose DEL also ends connections and removes shared
 * objects
 */
export function elementFinder(
  table: Table,
  load: () => Promise<Plugin>,
): OrphanFinder {
  return async (search) => {
    using nftables = openNftables(search.hostNetns);
    if (nftables === undefined) return [];
    return await findElements(search, nftables, table, load);
  };
}

/** Lists the addresses that a rule compares; for a subnet, its network address. */
export function addressesIn({ expressions }: Rule): Ip[] {
  return comparedValues(expressions)
    .filter(({ length }) => length === 4 || length === 16)
    .map((value) => Ip.fromBytes(value));
}

/** An element, and the set that contains it. */
interface Placed extends Element {
  readonly set: string;
}

async function findElements(
  search: OrphanSearch,
  nftables: Nftables,
  table: Table,
  load: () => Promise<Plugin>,
): Promise<Orphan[]> {
  const orphans: Orphan[] = [];
  for (const [comment, elements] of elementsByComment(nftables, table)) {
    const owner = parseInstance(comment);
    if (owner === undefined) continue;
    const [label = ""] = elements.flatMap(({ label }) => label ?? []);
    const reason = search.evidence.findReason({
      container: owner.container,
      isTruncated: !await isWhole(owner),
      addresses: uniqueIps(elements.flatMap(addressOf)),
      // The path of the namespace, which can contain blanks.
      netns: label.split(" ").slice(2).join(" "),
    });
    if (reason === undefined) continue;
    orphans.push({
      kind: "nftables",
      where:
        `${elements.length} elements of table ${table.family} ${table.name}`,
      container: owner.container,
      network: owner.network,
      ...reason,
      async remove(): Promise<void> {
        if (await isWhole(owner)) await runDel(search, await load(), owner);
        await removeElements(search, table, comment);
      },
    });
  }
  return orphans;
}

function elementsByComment(
  nftables: Nftables,
  table: Table,
): Map<string, Placed[]> {
  const all = nftables.listSets(table).flatMap((set) =>
    nftables.listElements(table, set)
      // A link that accepts 127.0.0.0/8 can be shared.
      .filter(({ comment }) => comment !== "" && set !== "loopback_links")
      .map((element) => ({ ...element, set }))
  );
  return Map.groupBy(all, ({ comment }) => comment);
}

/**
 * Returns the container's address in an element of a mapping, a masquerade, or the
 * firewall.
 */
function addressOf({ set, key, data }: Placed): Ip[] {
  const length = set.endsWith("6") ? 16 : 4;
  const bytes = data?.slice(0, length) ?? key.slice(-length);
  return bytes.length === length ? [Ip.fromBytes(bytes as Bytes)] : [];
}

/**
 * Reports whether a comment contains its owner's full names, so that it begins with
 * their hashes.
 */
export async function isWhole(owner: CommentOwner): Promise<boolean> {
  const { network, container: containerId, ifName } = owner;
  const { instance } = await namesOf({ network, containerId, ifName });
  return instance === owner.instance;
}

/** Removes exactly the elements with a comment. */
async function removeElements(
  { hostNetns }: OrphanSearch,
  table: Table,
  comment: string,
): Promise<void> {
  using nftables = openNftables(hostNetns);
  if (nftables === undefined) return;
  await commitUnlessDisturbed(nftables, () => {
    const own = elementsByComment(nftables, table).get(comment) ?? [];
    return [...Map.groupBy(own, ({ set }) => set)]
      .map(([set, elements]) => delElementsOf(table, set, elements));
  });
}

/** Runs DEL of the plugin, which also ends connections and removes shared objects. */
async function runDel(
  { env, hostNetns, invoker, onStderr, log }: OrphanSearch,
  plugin: Plugin,
  { network, container, ifName }: CommentOwner,
): Promise<void> {
  const config = { cniVersion: "1.0.0", name: network, type: plugin.name };
  const { exitCode, stdout } = await dispatch(plugin, {
    env: {
      PATH: env["PATH"] ?? "",
      CNI_COMMAND: "DEL",
      CNI_CONTAINERID: container,
      CNI_IFNAME: ifName,
      CNI_NETNS: "",
      CNI_PATH: "/",
    },
    stdin: () => new TextEncoder().encode(JSON.stringify(config)),
    hostNetns,
    invoker,
    ...onStderr && { onStderr },
  });
  if (exitCode === 0) return;
  log.warn(`DEL of ${plugin.name} failed`, {
    container,
    network,
    answer: stdout,
  });
}

/** Commits changes, unless the kernel lacks nf_tables. */
export async function commitIn(
  { hostNetns }: OrphanSearch,
  plan: (nftables: Nftables) => Change[],
): Promise<void> {
  using nftables = openNftables(hostNetns);
  if (nftables !== undefined) {
    await commitUnlessDisturbed(nftables, () => plan(nftables));
  }
}
