/**
 * Rules of nftables that are found by their chain: port mappings of the Go
 * plugin, and rules against forged MACs.
 *
 * @module
 */

import {
  type Change,
  delChainOf,
  delRuleOf,
  flushChain,
  type Table,
} from "../../ffi/nftables/change.ts";
import { comparedValues, inputNameOf } from "../../ffi/nftables/expression.ts";
import type { Nftables, Rule } from "../../ffi/nftables/mod.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Ip } from "../../net/ip.ts";
import { commitUnlessDisturbed } from "../../plugins/parts/commit_unless_disturbed.ts";
import { openNftables } from "../../plugins/parts/open_nftables.ts";
import { uniqueIps } from "./comments.ts";
import type { Orphan } from "./orphan.ts";
import type { Scene } from "./search.ts";

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

/** Lists the addresses that a rule compares; of a subnet, the network's. */
export function addressesIn({ expressions }: Rule): Ip[] {
  return comparedValues(expressions)
    .filter(({ length }) => length === 4 || length === 16)
    .map((value) => Ip.fromBytes(value));
}

/** Finds port mappings of the Go plugin. */
export function findGoPortmap(scene: Scene, nftables: Nftables): Orphan[] {
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
export function findSpoofing(scene: Scene, nftables: Nftables): Orphan[] {
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
