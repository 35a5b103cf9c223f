/**
 * Orphans of portmap, of this project and of the Go plugin: elements and
 * rules of nftables, and chains of iptables. Masquerades of the legacy iptables
 * are among these.
 *
 * @module
 */

import type {
  Orphan,
  OrphanSearch,
  PluginOrphans,
} from "../../metadata/orphans.ts";
import type { Plugin } from "../../cni/plugin.ts";
import { delRuleOf, type Table } from "../../ffi/nftables/change.ts";
import type { Ip } from "../../net/ip.ts";
import { eachIptables } from "../parts/firewall/iptables/places.ts";
import {
  commentOf,
  type Iptables,
  optionsOf,
  runIptables,
  type TableName,
} from "../parts/firewall/iptables/program.ts";
import { changeRules, deleteLineOf } from "../parts/firewall/iptables/rules.ts";
import {
  addressesIn,
  commitIn,
  elementFinder,
} from "../parts/firewall/orphan_elements.ts";
import {
  addressIn,
  hostTableOf,
  listTableRules,
  searchIptables,
} from "../parts/firewall/orphan_iptables.ts";
import {
  type CommentOwner,
  parseQuoted,
  uniqueIps,
} from "../parts/owner/comment_owner.ts";
import { openNftables } from "../parts/firewall/open_nftables.ts";
import { IPTABLES_HOSTPORTS as HOSTPORTS } from "./mapping.ts";

/** A container's chain of port mappings, or of a masquerade. */
const CHAIN = /^CNI-(?:DN-[0-9a-f]{21}|SN-[0-9a-f]{21}|[0-9a-f]{24})$/;

/** See {@linkcode PluginOrphans}. */
export const orphans: PluginOrphans = {
  finders: [
    elementFinder(
      { family: "inet", name: "cni_portmap" },
      async () => (await import("./plugin.ts")).portmap as Plugin,
    ),
    findGoPortmap,
    findChains,
  ],
};

/** Chains of the Go plugin's port mappings. The comment is the container's ID. */
const GO_PORTMAP: readonly (readonly [Table, string])[] = [
  ...["ip", "ip6"] as const,
].flatMap((family) =>
  ["hostports", "hostip_hostports", "masquerading"].map((chain) =>
    [{ family, name: "cni_hostport" }, chain] as const
  )
);

/** Finds port mappings of the Go plugin. */
function findGoPortmap(search: OrphanSearch): Orphan[] {
  using nftables = openNftables(search.hostNetns);
  if (nftables === undefined) return [];
  const rules = GO_PORTMAP.flatMap(([table, chain]) =>
    nftables.listRules(table, chain)
      .filter(({ comment }) => comment !== "")
      .map((rule) => ({ table, rule, container: rule.comment }))
  );
  return [...Map.groupBy(rules, ({ container }) => container)].flatMap(
    ([container, own]) => {
      const reason = search.evidence.findReason({
        container,
        addresses: uniqueIps(own.flatMap(({ rule }) => addressesIn(rule))),
      });
      const [first] = own;
      if (reason === undefined || first === undefined) return [];
      const { family, name } = first.table;
      return [{
        kind: "nftables",
        where: `${own.length} rules of table ${family} ${name}`,
        container,
        network: "",
        ...reason,
        remove: () =>
          commitIn(
            search,
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

async function findChains(search: OrphanSearch): Promise<Orphan[]> {
  const found: Chain[] = [];
  await searchIptables(search, "nat", HOSTPORTS, async (iptables) => {
    found.push(...await listChains(iptables));
  });
  return listOrphanedChains(search, found);
}

/** A container's chain in one table. */
interface Chain {
  readonly name: string;
  readonly owner: CommentOwner;
  readonly table: TableName;
  readonly addresses: readonly Ip[];
  /** Paths of namespaces. */
  readonly namespaces: readonly string[];
}

async function listChains(iptables: Iptables): Promise<Chain[]> {
  const rules = await listTableRules(iptables);
  return rules.flatMap((rule) => {
    const name = optionsOf(rule)("-j") ?? "";
    const owner = CHAIN.test(name) ? parseQuoted(commentOf(rule)) : undefined;
    if (owner === undefined) return [];
    const own = rules.filter((one) => one.startsWith(`-A ${name} `));
    return [{
      name,
      owner,
      table: iptables.table,
      addresses: [rule, ...own].flatMap(addressIn),
      namespaces: own.flatMap(namespaceIn),
    }];
  });
}

/** Lists the orphaned chains of containers, both families together. */
function listOrphanedChains(
  search: OrphanSearch,
  found: readonly Chain[],
): Orphan[] {
  return [...Map.groupBy(found, ({ name }) => name)].flatMap(
    ([name, chains]) => {
      const [first] = chains;
      if (first === undefined) return [];
      const { owner: { container, network }, table } = first;
      const isAlive = chains.flatMap(({ namespaces }) => namespaces)
        .some((path) => search.evidence.isAlive(path));
      const reason = isAlive ? undefined : search.evidence.findReason({
        container,
        addresses: uniqueIps(chains.flatMap(({ addresses }) => addresses)),
      });
      if (reason === undefined) return [];
      return [{
        kind: "iptables",
        where: `chain ${name} of table ${table}`,
        container,
        network,
        ...reason,
        remove: () => removeChain(search, table, name),
      }];
    },
  );
}

/** This project's chains end with a rule that names the namespace. */
function namespaceIn(rule: string): string[] {
  const path = /^if: .*?, netns: \S+ (.+)$/.exec(commentOf(rule))?.[1];
  return path === undefined ? [] : [path];
}

async function removeChain(
  search: OrphanSearch,
  table: TableName,
  chain: string,
): Promise<void> {
  await eachIptables(
    hostTableOf(search, table),
    [chain],
    (iptables) =>
      changeRules(iptables, async () => {
        const { stdout } = await runIptables(iptables, ["-S"]);
        const lines = stdout.split("\n");
        if (!lines.includes(`-N ${chain}`)) return [];
        return [
          ...lines.filter((line) =>
            line.startsWith("-A ") && optionsOf(line)("-j") === chain
          ).map(deleteLineOf),
          `-F ${chain}`,
          `-X ${chain}`,
        ];
      }),
  );
}
