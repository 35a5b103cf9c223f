/**
 * Masquerades with `iptables` and `ip6tables`, for hosts with the legacy variant or a
 * program of unknown variant. The rules are the same as in `iptables_nft.ts`.
 *
 * Source: containernetworking/plugins pkg/ip/ipmasq_iptables_linux.go.
 *
 * @module
 */

import type { Cidr } from "../../../../net/cidr.ts";
import { Ip } from "../../../../net/ip.ts";
import {
  commentOf,
  failureOf,
  type Iptables,
  isUnusable,
  OTHER_PROBLEM,
  quote,
  restoreIptables,
  runIptables,
  splitRule,
} from "../iptables/program.ts";
import {
  changeRules,
  deleteLineOf,
  listMissingRules,
  listTable,
  removeEach,
} from "../iptables/rules.ts";
import {
  containerIn,
  findOutbound,
  type MasqueradeNames,
  type MasqueradeRules,
  MULTICAST,
  type SourceTest,
} from "./names.ts";

/**
 * Masquerades packets from the addresses to destinations outside their subnets.
 *
 * @param addresses Addresses of the program's family
 * @throws {Error} With the program's output
 */
export async function addIptablesMasquerade(
  iptables: Iptables,
  names: MasqueradeRules,
  addresses: readonly Cidr[],
): Promise<void> {
  const rules = rulesOf(iptables, names, addresses);
  // A single run adds the chain and all rules. It fails as a whole if the chain
  // exists, because an earlier attachment left it, or another interface shares it.
  const first = await restoreIptables(iptables, [
    `-N ${names.chain}`,
    ...rules.map(addition),
  ]);
  if (first.success) return;
  const chain = await runIptables(iptables, ["-S", names.chain]);
  if (!chain.success) {
    throw failureOf(iptables, isUnusable(chain) ? chain : first);
  }
  const postrouting = await runIptables(iptables, ["-S", "POSTROUTING"]);
  if (!postrouting.success) throw failureOf(iptables, postrouting);
  const present = (chain.stdout + postrouting.stdout).split("\n");
  const missing = rules.filter((rule) =>
    !present.some((line) => isSameRule(line, `-A ${rule}`))
  );
  // Translations to a different outbound address.
  const others = chain.stdout.split("\n").filter((line) =>
    / -j (MASQUERADE|SNAT)\b/.test(line) &&
    !rules.some((rule) => isSameRule(line, `-A ${rule}`))
  );
  const second = await restoreIptables(iptables, [
    ...others.map((line) => line.replace("-A", "-D")),
    ...missing.map(addition),
  ]);
  if (!second.success) throw failureOf(iptables, second);
}

/**
 * Removes an attachment's rules, and its chain unless another interface of the
 * container still uses it.
 *
 * @throws {Error} With the program's output
 */
export async function delIptablesMasquerade(
  iptables: Iptables,
  { chain }: MasqueradeNames,
  isOwn: SourceTest,
): Promise<void> {
  const there = await runIptables(iptables, ["-S", chain]);
  if (there.code === OTHER_PROBLEM) return;
  if (!there.success) throw failureOf(iptables, there);
  const listed = await runIptables(iptables, ["-S", "POSTROUTING"]);
  if (!listed.success) throw failureOf(iptables, listed);
  const leading = listed.stdout.split("\n")
    .filter((line) => line.includes(`-j ${chain}`));
  const own = leading.filter((line) => isOwn(sourceOf(line)));
  const isShared = own.length < leading.length;
  const changes = [
    ...own.map((line) => line.replace("-A", "-D")),
    ...isShared ? [] : [`-F ${chain}`, `-X ${chain}`],
  ];
  const ended = await restoreIptables(iptables, changes);
  if (ended.success) return;
  // A different DEL of the same attachment might have been faster.
  const left = await runIptables(iptables, ["-S", chain]);
  if (left.code !== OTHER_PROBLEM) throw failureOf(iptables, ended);
}

/**
 * Removes the chains of containers, and the rules that lead to them.
 *
 * @throws {Error} If a chain cannot be removed; the other chains are removed unless
 * the call ends
 */
export async function delIptablesChains(
  iptables: Iptables,
  containers: readonly Pick<MasqueradeNames, "chain">[],
  signal?: AbortSignal,
): Promise<void> {
  const all = containers.map(({ chain }) => chain);
  const remove = (some: readonly string[]): Promise<void> =>
    changeRules(iptables, async () => {
      const chains = new Set(some);
      const listed = await listTable(iptables);
      const present = listed.filter((line) => line.startsWith("-N "))
        .map((line) => line.slice("-N ".length))
        .filter((name) => chains.has(name));
      const leading = listed.filter((line) =>
        line.startsWith("-A POSTROUTING ") &&
        chains.has(/ -j (\S+)/.exec(line)?.[1] ?? "")
      );
      return [
        ...leading.map(deleteLineOf),
        ...present.flatMap((chain) => [`-F ${chain}`, `-X ${chain}`]),
      ];
    });
  await removeEach(all, remove, signal);
}

/** Lists the containers with rules for a network, from the rules' comments. */
export async function listIptablesContainers(
  iptables: Iptables,
  network: string,
): Promise<string[]> {
  const listed = await runIptables(iptables, ["-S", "POSTROUTING"]);
  if (!listed.success) throw failureOf(iptables, listed);
  return listed.stdout.split("\n").flatMap((line) =>
    containerIn(commentOf(line), network) ?? []
  );
}

/** Lists the attachment's addresses that are not masqueraded. */
export async function listIptablesUnmasqueraded(
  iptables: Iptables,
  names: MasqueradeRules,
  addresses: readonly Cidr[],
): Promise<Cidr[]> {
  const missing = await Promise.all(addresses.map(async (address) => {
    const rules = rulesOf(iptables, names, [address]).map((rule) => {
      const [chain = "", ...args] = splitRule(rule);
      return { chain, args };
    });
    return (await listMissingRules(iptables, rules)).length > 0;
  }));
  return addresses.filter((_, at) => missing[at]);
}

function rulesOf(
  { family }: Iptables,
  names: MasqueradeRules,
  addresses: readonly Cidr[],
): string[] {
  const { chain, iptablesComment } = names;
  const outbound = findOutbound(names, family);
  const target = outbound ? `SNAT --to-source ${outbound}` : "MASQUERADE";
  const comment = `-m comment --comment ${quote(iptablesComment)}`;
  return addresses.flatMap((address) => [
    `${chain} -d ${address.masked()} ${comment} -j ACCEPT`,
    `${chain} ! -d ${MULTICAST[family]} ${comment} -j ${target}`,
    `POSTROUTING -s ${address.ip}${
      family === 4 ? "/32" : "/128"
    } ${comment} -j ${chain}`,
  ]).filter((rule, index, all) => all.indexOf(rule) === index);
}

/**
 * Returns the command that adds a rule. Rules that exempt subnets precede the rule
 * that masquerades.
 */
function addition(rule: string): string {
  return `${rule.endsWith(" ACCEPT") ? "-I" : "-A"} ${rule}`;
}

/** Reports whether a listed rule equals a required rule, by their arguments. */
function isSameRule(listed: string, rule: string): boolean {
  const [left, right] = [listed, rule].map((text) =>
    splitRule(text).sort().join("\0")
  );
  return left === right;
}

function sourceOf(line: string): Ip | undefined {
  const text = / -s ([^ /]+)/.exec(line)?.[1];
  return text === undefined ? undefined : Ip.parse(text);
}
