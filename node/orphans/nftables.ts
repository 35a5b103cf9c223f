/**
 * Elements and rules of nftables: port mappings, firewall and masquerade, ours
 * and the Go plugins'. They are found by the comments that name their owners.
 *
 * @module
 */

import { dispatch } from "../../cni/skel.ts";
import {
  type Change,
  delChainOf,
  delElementsOf,
  delRuleOf,
  type Element,
  flushChain,
  type Table,
} from "../../ffi/nftables/change.ts";
import {
  comparedValues,
  inputNameOf,
  verdictOf,
  xtablesCommentOf,
} from "../../ffi/nftables/expression.ts";
import type { Nftables, Rule } from "../../ffi/nftables/mod.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Bytes } from "../../net/bytes.ts";
import { Ip } from "../../net/ip.ts";
import { commitUnlessDisturbed } from "../../plugins/parts/commit_unless_disturbed.ts";
import { nftTableOf } from "../../plugins/parts/iptables/nft_table.ts";
import { delIptablesNftMasquerade } from "../../plugins/parts/masquerade/iptables_nft.ts";
import { namesOf } from "../../plugins/parts/masquerade/names.ts";
import { delMasquerade } from "../../plugins/parts/masquerade/nftables.ts";
import { openNftables } from "../../plugins/parts/open_nftables.ts";
import { findPlugin } from "../../plugins/registry.ts";
import { type Owner, parseInstance, parseQuoted } from "./comments.ts";
import type { Orphan } from "./orphan.ts";
import type { Scene } from "./search.ts";

const PORTMAP: Table = { family: "inet", name: "cni_portmap" };
const FIREWALL: Table = { family: "inet", name: "cni_firewall" };
const MASQUERADE: Table = { family: "inet", name: "cni_plugins_masquerade" };
const MASQUERADE_RULES = "masq_checks";
const SPOOFING: Table = { family: "bridge", name: "nat" };
const SPOOFING_COMMENT = "macspoofchk-", SPOOFING_CHAIN = "cni-br-iface-";

/** Chains of the Go plugin's port mappings. The comment is the container's ID. */
const GO_PORTMAP: readonly (readonly [Table, string])[] = [
  ...["ip", "ip6"] as const,
].flatMap((family) =>
  ["hostports", "hostip_hostports", "masquerading"].map((chain) =>
    [{ family, name: "cni_hostport" }, chain] as const
  )
);

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

/** Lists the addresses that a rule compares; of a subnet, the network's. */
function addressesIn({ expressions }: Rule): Ip[] {
  return comparedValues(expressions)
    .filter(({ length }) => length === 4 || length === 16)
    .map((value) => Ip.fromBytes(value));
}

function findGoPortmap(scene: Scene, nftables: Nftables): Orphan[] {
  const rules = GO_PORTMAP.flatMap(([table, chain]) =>
    nftables.listRules(table, chain)
      .filter(({ comment }) => comment !== "")
      .map((rule) => ({ table, rule, container: rule.comment }))
  );
  return [...Map.groupBy(rules, ({ container }) => container)].flatMap(
    ([container, own]) => {
      const why = scene.evidence.findProof({
        container,
        addresses: uniqueIps(own.flatMap(({ rule }) => addressesIn(rule))),
      });
      const [first] = own;
      if (why === undefined || first === undefined) return [];
      const { family, name } = first.table;
      return [{
        kind: "nftables",
        where: `${own.length} rules of table ${family} ${name}`,
        container,
        network: "",
        why,
        remove: () =>
          commit(
            scene,
            (nftables) =>
              GO_PORTMAP.flatMap(([table, chain]) =>
                nftables.listRules(table, chain)
                  .filter(({ comment }) => comment === container)
                  .map(({ handle }) => delRuleOf(table, chain, handle))
              ),
          ),
      }];
    },
  );
}

/** Rules against forged MACs: of links that no longer exist. */
function findSpoofing(scene: Scene, nftables: Nftables): Orphan[] {
  const rules = nftables.listRules(SPOOFING, "PREROUTING")
    .filter(({ comment }) => comment.startsWith(SPOOFING_COMMENT));
  if (rules.length === 0) return [];
  using host = Rtnl.open(scene.hostNetns);
  const links = new Set(host.link.list().map(({ name }) => name));
  return rules.flatMap(({ comment, expressions }) => {
    const link = inputNameOf(expressions);
    if (link === "" || links.has(link)) return [];
    const id = comment.slice(SPOOFING_COMMENT.length);
    const container = id.replace(/-[^-]*$/, "");
    const why = scene.evidence.findProof({ container, isCut: true });
    if (why === undefined) return [];
    return [{
      kind: "nftables",
      where: `chain ${SPOOFING_CHAIN}${id} of table bridge nat`,
      container,
      network: "",
      why: `link ${link} is gone`,
      remove: () => commit(scene, (nftables) => delSpoofing(nftables, comment)),
    }];
  });
}

function delSpoofing(nftables: Nftables, comment: string): Change[] {
  const first = SPOOFING_CHAIN + comment.slice(SPOOFING_COMMENT.length);
  const chains = [first, `${first}-mac`]
    .filter((chain) => nftables.hasChain(SPOOFING, chain));
  return [
    ...nftables.listRules(SPOOFING, "PREROUTING")
      .filter((rule) => rule.comment === comment)
      .map(({ handle }) => delRuleOf(SPOOFING, "PREROUTING", handle)),
    ...chains.map((chain) => flushChain(SPOOFING, chain)),
    ...chains.map((chain) => delChainOf(SPOOFING, chain)),
  ];
}

async function commit(
  { hostNetns }: Scene,
  plan: (nftables: Nftables) => Change[],
): Promise<void> {
  await Promise.resolve();
  using nftables = openNftables(hostNetns);
  if (nftables !== undefined) {
    commitUnlessDisturbed(nftables, () => plan(nftables));
  }
}

function uniqueIps(ips: readonly Ip[]): Ip[] {
  return [...new Map(ips.map((ip) => [String(ip), ip])).values()];
}
