/**
 * Elements and rules of nftables: port mappings, firewall and masquerade, ours
 * and the Go plugins'. They are found by the comments that name their owners.
 *
 * @module
 */

import { dispatch } from "../../cni/skel.ts";
import {
  delElementsOf,
  type Element,
  type Table,
} from "../../ffi/nftables/change.ts";
import { verdictOf, xtablesCommentOf } from "../../ffi/nftables/expression.ts";
import type { Nftables } from "../../ffi/nftables/mod.ts";
import type { Bytes } from "../../net/bytes.ts";
import { Ip } from "../../net/ip.ts";
import { commitUnlessDisturbed } from "../../plugins/parts/commit_unless_disturbed.ts";
import { nftTableOf } from "../../plugins/parts/iptables/nft_table.ts";
import { delIptablesNftMasquerade } from "../../plugins/parts/masquerade/iptables_nft.ts";
import { namesOf } from "../../plugins/parts/masquerade/names.ts";
import { delMasquerade } from "../../plugins/parts/masquerade/nftables.ts";
import { openNftables } from "../../plugins/parts/open_nftables.ts";
import { findPlugin } from "../../plugins/registry.ts";
import {
  type Owner,
  parseInstance,
  parseQuoted,
  uniqueIps,
} from "./comments.ts";
import type { Orphan } from "./orphan.ts";
import { addressesIn, findGoPortmap, findSpoofing } from "./rules.ts";
import type { Scene } from "./search.ts";

const PORTMAP: Table = { family: "inet", name: "cni_portmap" };
const FIREWALL: Table = { family: "inet", name: "cni_firewall" };
const MASQUERADE: Table = { family: "inet", name: "cni_plugins_masquerade" };
const MASQUERADE_RULES = "masq_checks";

/** Finds elements and rules; none if the kernel has no nf_tables. */
export async function findInNftables(scene: Scene): Promise<Orphan[]> {
  using nftables = openNftables(scene.hostNetns);
  if (nftables === undefined) return [];
  return [
    ...await findElements(scene, nftables, "portmap", PORTMAP),
    ...await findElements(scene, nftables, "firewall", FIREWALL),
    ...await findMasquerades(scene, nftables),
    ...await findIptablesMasquerades(scene, nftables),
    ...findGoPortmap(scene, nftables),
    ...findSpoofing(scene, nftables),
  ];
}

/** An element, and the set that has it. */
interface Placed extends Element {
  readonly set: string;
}

async function findElements(
  scene: Scene,
  nftables: Nftables,
  type: "portmap" | "firewall",
  table: Table,
): Promise<Orphan[]> {
  const orphans: Orphan[] = [];
  for (const [comment, elements] of elementsByComment(nftables, table)) {
    const owner = parseInstance(comment);
    if (owner === undefined) continue;
    const [label = ""] = elements.flatMap(({ label }) => label ?? []);
    const why = scene.evidence.findProof({
      container: owner.container,
      isCut: !await isWhole(owner),
      addresses: uniqueIps(elements.flatMap(addressOf)),
      // The path of the namespace; it may contain blanks.
      netns: label.split(" ").slice(2).join(" "),
    });
    if (why === undefined) continue;
    orphans.push({
      kind: "nftables",
      where:
        `${elements.length} elements of table ${table.family} ${table.name}`,
      container: owner.container,
      network: owner.network,
      why,
      async remove(): Promise<void> {
        if (await isWhole(owner)) await runDel(scene, type, owner);
        removeElements(scene, table, comment);
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
      // A link that lets 127.0.0.0/8 pass may be shared.
      .filter(({ comment }) => comment !== "" && set !== "loopback_links")
      .map((element) => ({ ...element, set }))
  );
  return Map.groupBy(all, ({ comment }) => comment);
}

/** Returns the container's address: of a mapping, a masquerade, or the firewall. */
function addressOf({ set, key, data }: Placed): Ip[] {
  const length = set.endsWith("6") ? 16 : 4;
  const bytes = data?.slice(0, length) ?? key.slice(-length);
  return bytes.length === length ? [Ip.fromBytes(bytes as Bytes)] : [];
}

/** Reports whether a comment names its owner in full: it begins with its hashes. */
async function isWhole(owner: Owner): Promise<boolean> {
  const { network, container: containerId, ifName } = owner;
  const { instance } = await namesOf({ network, containerId, ifName });
  return instance === owner.instance;
}

/** Removes the elements of a comment, and no others. */
function removeElements(
  { hostNetns }: Scene,
  table: Table,
  comment: string,
): void {
  using nftables = openNftables(hostNetns);
  if (nftables === undefined) return;
  commitUnlessDisturbed(nftables, () => {
    const own = elementsByComment(nftables, table).get(comment) ?? [];
    return [...Map.groupBy(own, ({ set }) => set)]
      .map(([set, elements]) => delElementsOf(table, set, elements));
  });
}

/** Runs DEL of one of our plugins, which also ends connections and shared parts. */
async function runDel(
  { env, hostNetns, invoker, onStderr, log }: Scene,
  type: "portmap" | "firewall",
  { network, container, ifName }: Owner,
): Promise<void> {
  const plugin = await findPlugin(type);
  if (plugin === undefined) return;
  const config = { cniVersion: "1.0.0", name: network, type };
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
  log.warn(`DEL of ${type} failed`, { container, network, answer: stdout });
}

async function findMasquerades(
  scene: Scene,
  nftables: Nftables,
): Promise<Orphan[]> {
  const rules = nftables.listRules(MASQUERADE, MASQUERADE_RULES);
  const orphans: Orphan[] = [];
  for (const [comment, own] of Map.groupBy(rules, ({ comment }) => comment)) {
    const owner = parseInstance(comment);
    if (owner === undefined) continue;
    const why = scene.evidence.findProof({
      container: owner.container,
      isCut: !await isWhole(owner),
      addresses: uniqueIps(own.flatMap(addressesIn)),
    });
    if (why === undefined) continue;
    orphans.push({
      kind: "nftables",
      where:
        `${own.length} rules of table ${MASQUERADE.family} ${MASQUERADE.name}`,
      container: owner.container,
      network: owner.network,
      why,
      async remove(): Promise<void> {
        await Promise.resolve();
        using nftables = openNftables(scene.hostNetns);
        if (nftables) delMasquerade(nftables, owner);
      },
    });
  }
  return orphans;
}

/** The masquerade rules of iptables-nft, which we read without a program. */
async function findIptablesMasquerades(
  scene: Scene,
  nftables: Nftables,
): Promise<Orphan[]> {
  const found = ([4, 6] as const).flatMap((family) =>
    nftables.listRules(nftTableOf("nat", family), "POSTROUTING")
      .filter((rule) => rule.mentions("CNI-"))
      .map((rule) => ({ rule, table: nftTableOf("nat", family) }))
  );
  const orphans: Orphan[] = [];
  const chains = Map.groupBy(
    found,
    ({ rule }) => verdictOf(rule.expressions)?.chain ?? "",
  );
  for (const [chain, rules] of chains) {
    const [first] = rules;
    const owner = first &&
      parseQuoted(xtablesCommentOf(first.rule.expressions));
    if (!owner) continue;
    const { network, container: containerId } = owner;
    const names = await namesOf({ network, containerId, ifName: "" });
    // Another program's, or a comment that does not tell the owner.
    if (names.chain !== chain) continue;
    const why = scene.evidence.findProof({
      container: containerId,
      addresses: uniqueIps(rules.flatMap(({ rule }) => addressesIn(rule))),
    });
    if (why === undefined) continue;
    orphans.push({
      kind: "iptables",
      where: `chain ${chain} of table nat`,
      container: containerId,
      network,
      why,
      async remove(): Promise<void> {
        await Promise.resolve();
        using nftables = openNftables(scene.hostNetns);
        if (nftables) delIptablesNftMasquerade(nftables, { chain }, undefined);
      },
    });
  }
  return orphans;
}
