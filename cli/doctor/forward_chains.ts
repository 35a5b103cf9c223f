/**
 * The forward chains of nftables and of the legacy iptables.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import {
  comparedValues,
  encodeName,
  type Expression,
  isOfXtables,
  verdictOf,
  VERDICTS,
} from "../../ffi/nftables/expression.ts";
import type { Table } from "../../ffi/nftables/change.ts";
import type { HookedChain, Nftables } from "../../ffi/nftables/mod.ts";
import { inNetns, NetNs } from "../../ffi/netns.ts";
import type { Cidr } from "../../net/cidr.ts";
import type { IpFamily } from "../../net/ip.ts";
import { findVariant } from "../../plugins/parts/firewall/iptables/find.ts";
import {
  runIptables,
  type TableName,
} from "../../plugins/parts/firewall/iptables/program.ts";
import { openNftables } from "../../plugins/parts/firewall/open_nftables.ts";
import type { Node } from "./node.ts";

/**
 * The hooks that forwarded packets pass.
 *
 * Source: include/uapi/linux/netfilter.h `NF_INET_*`.
 */
const HOOKS = [0, 2, 4];
/** Expressions that decide nothing and match every packet. */
const IDLE = ["counter", "immediate", "reject", "log", "notrack"];

/** The fate of new connections of a container in a forward chain. */
export type Fate = "passes" | "unclear" | "dropped";

/** A forward chain, and what it does. */
export interface ForwardChain {
  /** Such as `nft: ip filter FORWARD`. */
  readonly name: string;
  readonly fate: Fate;
  /** Why it drops packets: its policy or its last rule. */
  readonly why: string;
  /** The command that lets a network's packets through. */
  readonly command: string;
}

/** What to look for in rules: a container's subnet and its link on the host. */
export interface Traffic {
  readonly subnet: Cidr;
  /** The link by which packets come to the host, if it is known. */
  readonly link: string | undefined;
}

/**
 * Lists the chains that may drop packets of containers, of nf_tables
 * and of the legacy iptables.
 *
 * @throws {Error} If the rules cannot be listed
 */
export async function listForwardChains(
  node: Pick<Node, "hostNetns" | "env">,
  traffic: Traffic,
): Promise<ForwardChain[]> {
  using nftables = openNftables(node.hostNetns);
  const { family } = traffic.subnet;
  const hooked = nftables?.listHookedChains() ?? [];
  const own = family === 4 ? "ip" : "ip6";
  const found = hooked.filter(({ hook, type, table }) =>
    HOOKS.includes(hook) && type === "filter" &&
    ["inet", own].includes(table.family)
  ).flatMap((chain) => judge(nftables as Nftables, chain, traffic) ?? []);
  return [...found, ...await listLegacyChains(node, traffic)];
}

function judge(
  nftables: Nftables,
  chain: HookedChain,
  traffic: Traffic,
): ForwardChain | undefined {
  const { table, name } = chain;
  const rules = listBodies(nftables, table, name);
  const isClosed = rules.some(isFinal);
  if (!chain.drops && !isClosed) return undefined;
  const shown = `${table.family} ${table.name} ${name}`;
  return {
    name: `nftables chain "${shown}"`,
    fate: decideFate(rules, traffic),
    why: chain.drops ? "has policy drop" : "ends with a rule that drops",
    command: commandFor(chain, traffic),
  };
}

/** Returns the command that lets traffic through a chain of any program. */
function commandFor(
  { table, name }: HookedChain,
  { subnet }: Traffic,
): string {
  const { family } = subnet;
  if (table.name === "firewalld") {
    // A reload would take away rules of running containers.
    const add = `--zone=trusted --add-source=${subnet}`;
    return `firewall-cmd ${add} && firewall-cmd --permanent ${add}`;
  }
  if (name === "FORWARD" && table.name === "filter") {
    return iptablesCommand("", subnet);
  }
  const at = `${table.family} ${table.name} ${name}`;
  const word = family === 4 ? "ip" : "ip6";
  return `nft insert rule ${at} ${word} saddr ${subnet} accept; ` +
    `nft insert rule ${at} ${word} daddr ${subnet} accept`;
}

function iptablesCommand(suffix: string, subnet: Cidr): string {
  const program = `${subnet.family === 4 ? "iptables" : "ip6tables"}${suffix}`;
  return `${program} -I FORWARD -s ${subnet} -j ACCEPT; ` +
    `${program} -I FORWARD -d ${subnet} -j ACCEPT`;
}

/** Reports whether a rule drops or rejects all packets. */
function isFinal(expressions: readonly Expression[]): boolean {
  const matchesAll = expressions.every((one) =>
    IDLE.includes(one.name) || isOfXtables(one) && isReject(one)
  );
  return matchesAll && (
    verdictOf(expressions)?.code === VERDICTS.drop ||
    expressions.some((one) =>
      one.name === "reject" || isOfXtables(one) && isReject(one)
    )
  );
}

/** Reports whether it is `-j REJECT` of iptables. */
function isReject({ name, data }: Expression): boolean {
  return name === "target" &&
    new TextDecoder("latin1").decode(data).includes("REJECT\0");
}

/** A rule's expressions. */
type RuleBody = readonly Expression[];

/**
 * Lists the rules of a chain and of the chains that it jumps to. The latter
 * begin with what the jump compares: it holds for their packets.
 */
function listBodies(
  nftables: Nftables,
  table: Table,
  chain: string,
  depth = 0,
): RuleBody[] {
  if (depth > MAX_DEPTH) return [];
  return nftables.listRules(table, chain).flatMap(({ expressions }) => {
    const next = verdictOf(expressions)?.chain;
    if (next === undefined) return [expressions];
    // Only a rule of the base chain drops everything.
    const further = listBodies(nftables, table, next, depth + 1)
      .filter((body) => !isFinal(body));
    const compared = expressions.filter(({ name }) =>
      !IDLE.includes(name) && name !== "ct"
    );
    return [expressions, ...further.map((body) => [...compared, ...body])];
  });
}

/** Source: include/net/netfilter/nf_tables.h `NFT_JUMP_STACK_SIZE`. */
const MAX_DEPTH = 16;

/**
 * Judges rules by what they compare with. Rules for established connections do
 * not open any.
 */
function decideFate(
  rules: readonly RuleBody[],
  { subnet, link }: Traffic,
): Fate {
  const accepting = rules.filter((rule) =>
    verdictOf(rule)?.code === VERDICTS.accept &&
    !rule.some(({ name }) => name === "ct")
  );
  if (accepting.some((rule) => rule.every(({ name }) => IDLE.includes(name)))) {
    return "passes";
  }
  const isNamed = (rule: RuleBody): boolean =>
    listComparisons(rule).some(({ of, value }) =>
      of === "meta"
        ? link !== undefined && value === encodeName(link).toHex()
        : isPrefix(value, subnet)
    );
  if (accepting.some(isNamed)) return "passes";
  return accepting.length === 0 ? "dropped" : "unclear";
}

/** Lists what a rule compares: a part of the packet, or facts about it. */
function listComparisons(
  rule: RuleBody,
): { readonly of: string | undefined; readonly value: string }[] {
  return rule.flatMap((one, at) => {
    if (one.name !== "cmp") return [];
    const source = rule.slice(0, at)
      .findLast(({ name }) => name === "payload" || name === "meta");
    return comparedValues([one])
      .map((value) => ({ of: source?.name, value: value.toHex() }));
  });
}

/** Reports whether the bytes are the beginning of a subnet's address. */
function isPrefix(hex: string, { network }: Cidr): boolean {
  const bytes = hex.replace(/(00)+$/, "");
  return bytes !== "" &&
    new Uint8Array(network.toBytes()).toHex().startsWith(bytes);
}

/** Lists the chain FORWARD of the legacy iptables, if it drops packets. */
async function listLegacyChains(
  { hostNetns, env }: Pick<Node, "hostNetns" | "env">,
  { subnet, link }: Traffic,
): Promise<ForwardChain[]> {
  const { family } = subnet;
  using netns = NetNs.open(hostNetns);
  if (!hasLegacyTable(netns, family)) return [];
  const program = findVariant("legacy", family, env["PATH"]);
  if (program === undefined) return [];
  const iptables = {
    netns,
    family,
    table: "filter",
    path: program.path,
  } as const;
  const listed = await runIptables(iptables, ["-S"]);
  if (!listed.success) return [];
  const lines = listed.stdout.split("\n");
  const drops = lines.includes("-P FORWARD DROP");
  const isClosed = lines.some((line) =>
    /^-A FORWARD -j (DROP|REJECT)/.test(line)
  );
  if (!drops && !isClosed) return [];
  const accepting = lines.filter((line) =>
    / -j ACCEPT$/.test(line) && !/^-A (INPUT|OUTPUT) /.test(line) &&
    !/--(ct)?state/.test(line)
  );
  const isOpen = accepting.some((line) =>
    line === "-A FORWARD -j ACCEPT" || line.includes(` ${subnet} `) ||
    link !== undefined && line.includes(` ${link} `)
  );
  const suffix = program.path.endsWith("-legacy") ? "-legacy" : "";
  return [{
    name: `chain FORWARD of ${family === 4 ? "iptables" : "ip6tables"}-legacy`,
    fate: isOpen ? "passes" : accepting.length === 0 ? "dropped" : "unclear",
    why: drops ? "has policy DROP" : "ends with a rule that drops",
    command: iptablesCommand(suffix, subnet),
  }];
}

/** Reports whether the legacy iptables has a table. Asking iptables would create it. */
export function hasLegacyTable(
  netns: NetNs,
  family: IpFamily,
  table: TableName = "filter",
): boolean {
  const name = family === 4 ? "ip_tables_names" : "ip6_tables_names";
  const path = `/proc/thread-self/net/${name}`;
  const names = inNetns(
    netns,
    () => ifPossible(() => Deno.readTextFileSync(path)),
  );
  return names?.split("\n").includes(table) ?? false;
}
