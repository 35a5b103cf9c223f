/**
 * Counts packets that rules of legacy iptables and ebtables drop. The kernel can trace
 * such rules only with an additional rule in their tables.
 *
 * @module
 */

import { basename } from "@std/path/posix";
import { JoinedSignal } from "../../base/deadline.ts";
import { ifPossible } from "../../base/files/io.ts";
import { outputUntil } from "../../base/process/child.ts";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import type { IpFamily } from "../../net/ip.ts";
import { findVariant } from "../../plugins/parts/firewall/iptables/find.ts";
import { splitRule } from "../../plugins/parts/firewall/iptables/program.ts";
import { quote } from "../../base/command_line/shell.ts";

/** A rule or policy that drops packets, and the number of dropped packets. */
export interface CountedRule {
  /** Path of the namespace. */
  readonly netns: string;
  /** Such as `iptables-legacy`. */
  readonly program: string;
  readonly table: string;
  /** As the program writes it: `-A FORWARD -s 10.1.0.0/24 -j DROP`, or `-P FORWARD DROP`. */
  readonly text: string;
  /** The built-in chains from which the kernel reaches the rule, such as `FORWARD`. */
  readonly hooks: readonly string[];
  readonly packets: number;
}

const TABLE_FILES = { 4: "ip_tables_names", 6: "ip6_tables_names" } as const;
const EBTABLES = "ebtables-legacy";

/** Lists the rules that drop packets in some namespaces. */
export async function countLegacyRules(
  places: readonly NetNs[],
  path: string | undefined,
): Promise<CountedRule[]> {
  const counted: CountedRule[] = [];
  for (const netns of places) {
    for (const family of [4, 6] as const) {
      counted.push(...await countIptables(netns, family, path));
    }
    counted.push(...await countEbtables(netns));
  }
  return counted;
}

async function countIptables(
  netns: NetNs,
  family: IpFamily,
  path: string | undefined,
): Promise<CountedRule[]> {
  const tables = listLegacyTables(netns, family);
  const variant = tables.length === 0
    ? undefined
    : findVariant("legacy", family, path);
  if (variant === undefined) return [];
  const program = basename(variant.path);
  const counted: CountedRule[] = [];
  for (const table of tables) {
    const text = await run(netns, `${variant.path}-save`, ["-c", "-t", table]);
    const place = { netns: netns.path, program, table };
    counted.push(...parse(text).map((rule) => ({ ...place, ...rule })));
  }
  return counted;
}

/** Lists the tables of legacy iptables. The program iptables would create tables. */
export function listLegacyTables(netns: NetNs, family: IpFamily): string[] {
  const path = `/proc/thread-self/net/${TABLE_FILES[family]}`;
  const text = inNetns(
    netns,
    () => ifPossible(() => Deno.readTextFileSync(path)),
  );
  return (text ?? "").split("\n").filter((name) => name !== "");
}

/** Counts rules of the ebtables tables whose module is loaded: no file lists them. */
async function countEbtables(netns: NetNs): Promise<CountedRule[]> {
  const modules = ifPossible(() => Deno.readTextFileSync("/proc/modules")) ??
    "";
  const loaded = modules.split("\n").map((line) => line.split(" ")[0]);
  const tables = ["filter", "nat", "broute"]
    .filter((table) => loaded.includes(`ebtable_${table}`));
  const counted: CountedRule[] = [];
  for (const table of tables) {
    const args = ["-t", table, "-L", "--Lc", "--Lx"];
    const text = await run(netns, EBTABLES, args);
    const place = { netns: netns.path, program: EBTABLES, table };
    counted.push(...parseEbtables(text).map((rule) => ({ ...place, ...rule })));
  }
  return counted;
}

/** Time limit of a program, in ms. */
const LIMIT_MS = 10_000;

/** Runs a program in a namespace; "" if it fails. */
async function run(
  netns: NetNs,
  program: string,
  args: string[],
): Promise<string> {
  const command = new Deno.Command(program, {
    args,
    detached: true,
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  });
  const child = inNetns(netns, () => ifPossible(() => command.spawn()));
  if (child === undefined) return "";
  using limit = new JoinedSignal(LIMIT_MS);
  const output = await outputUntil(child, limit.signal);
  return output?.success ? new TextDecoder().decode(output.stdout) : "";
}

type Parsed = Pick<CountedRule, "text" | "hooks" | "packets">;

/** Parses what `iptables-save -c` prints. */
function parse(saved: string): Parsed[] {
  const lines = saved.split("\n");
  return lines.flatMap((line) => {
    const policy = /^:(\S+) DROP \[(\d+):/.exec(line);
    if (policy !== null) {
      const [, chain = "", packets] = policy;
      const text = `-P ${chain} DROP`;
      return [{ text, hooks: [chain], packets: Number(packets) }];
    }
    const rule = /^\[(\d+):\d+\] (-A (\S+) .*-j (?:DROP|REJECT)\b.*)$/.exec(
      line,
    );
    if (rule === null) return [];
    const [, packets, text = "", chain = ""] = rule;
    return [{ text, hooks: listHooks(lines, chain), packets: Number(packets) }];
  });
}

/** Lists the built-in chains from which jumps lead to a chain, or the chain itself. */
function listHooks(lines: readonly string[], chain: string): string[] {
  // A set visits what is added during the loop.
  const chains = new Set([chain]);
  for (const one of chains) {
    for (const line of lines) {
      const [, from, to] = /-A (\S+) .*-[jg] (\S+)/.exec(line) ?? [];
      if (from !== undefined && to === one) chains.add(from);
    }
  }
  // Only built-in chains have a policy.
  return [...chains].filter((one) =>
    lines.some((line) => /^:(\S+) [A-Z]/.exec(line)?.[1] === one)
  );
}

/** Parses what `ebtables -L --Lc --Lx` prints: commands with counters. */
function parseEbtables(text: string): Parsed[] {
  return text.split("\n").flatMap((line) => {
    const rule = /^ebtables -t \S+ (-A .*-j DROP.*?) ?,? ?-c (\d+) \d+/.exec(
      line,
    );
    if (rule === null) return [];
    const [, text = "", packets] = rule;
    return [{ text, hooks: [], packets: Number(packets) }];
  });
}

/** Reports whether a rule or policy drops every packet that a hook passes to it. */
export function dropsAll({ text, hooks }: CountedRule): boolean {
  const [, chain = "", target = ""] = argumentsOf(text);
  return hooks.includes(chain) && (text.startsWith("-P ") || target === "-j");
}

/**
 * Reports whether a rule names neither addresses nor links, and is reached only from
 * hooks of the node's own packets: many nodes drop packets to ports that they do not
 * serve.
 */
export function isOfNodeOnly(rule: CountedRule): boolean {
  return isAtNode(rule) &&
    !argumentsOf(rule.text).some((one) => NAMES_PACKET_ENDS.test(one));
}

/** Reports whether a rule is reached only by packets to or from the node itself. */
export function isAtNode({ hooks }: CountedRule): boolean {
  return hooks.length > 0 &&
    hooks.every((hook) => hook === "INPUT" || hook === "OUTPUT");
}

/** Options of rules that compare addresses or links, also with sets. */
const NAMES_PACKET_ENDS =
  /^(-[sdio]|--(physdev-.*|match-set|src-range|dst-range|mac-source))$/;

/** Splits a rule into arguments, without its comment. */
function argumentsOf(text: string): string[] {
  const args = splitRule(text);
  const at = args.indexOf("--comment");
  return at < 0 ? args : args.toSpliced(at - 2, 4);
}

/** Returns the command that deletes a rule. */
export function deletionOf({ program, table, text }: CountedRule): string {
  // A shell would replace variables in quotes of the rule's language.
  const words = splitRule(text.replace(/^-A /, "-D ")).map(quote);
  return [program, ...inTable(table), ...words].join(" ");
}

/** Returns the command that accepts packets before a rule or policy drops them. */
export function acceptanceOf(
  { program, table, text }: CountedRule,
  match: readonly string[],
): string {
  const [, chain = ""] = splitRule(text);
  return [program, ...inTable(table), "-I", chain, ...match, "-j", "ACCEPT"]
    .join(" ");
}

function inTable(table: string): string[] {
  return table === "filter" ? [] : ["-t", table];
}
